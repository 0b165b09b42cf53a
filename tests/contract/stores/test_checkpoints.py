"""Checkpoint stores, held to their contract on every backend and in both colours."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.testing.contract.store_checkpoints import TABLES, CheckpointContract, open_store

if TYPE_CHECKING:
    from holdfast.testing.contract.store_ground import Ground, StoreVenue

BACKENDS = ("sqlite", "postgres", "mariadb", "file")


class TestCheckpointStore(CheckpointContract):
    """One suite, every column."""


def test_row_has_size_flag_and_times(store_venue: StoreVenue) -> None:
    async def scene(ground: Ground) -> None:
        store = await open_store(ground)
        await store.save("plain", b"12345")
        await store.save("packed", gzip.compress(b"12345"))
        await ground.advance(60)
        await store.load("plain")
        await store.save("packed", gzip.compress(b"other"))
        if not store_venue.is_sql:
            return
        key = "`key`" if store_venue.name == "mariadb" else '"key"'
        found = await ground.fetch(f"SELECT {key} AS k, c.* FROM {{holdfast_checkpoints}} AS c")
        rows = {row["k"]: row for row in found}
        assert (rows["plain"]["size_bytes"], bool(rows["plain"]["compressed"])) == (5, False)
        assert bool(rows["packed"]["compressed"]) is True
        for row in rows.values():
            assert row["created_at"] < row["accessed_at"]
            assert row["created_at"].endswith("+00:00")

    store_venue.play(scene, empty=TABLES if store_venue.is_sql else ())


KEYS = st.sampled_from(["a", "A", "a ", "a%", "a_b", "axb", "\u00e4", "../a", "a/b"])
CALLS = st.one_of(
    st.tuples(st.just("save"), KEYS, st.binary(max_size=20)),
    st.tuples(st.just("load"), KEYS),
    st.tuples(st.just("delete"), KEYS),
    st.tuples(st.just("list_keys"), st.sampled_from(["", "a", "a%", "a_", "A", "b"])),
)


def expected(model: dict[str, bytes], verb: str, key: str, *data: bytes) -> Any:
    """Do to a dictionary what a call does to a store, and return what it must return."""
    if verb == "save":
        [model[key]] = data
        return None
    if verb == "load":
        return model.get(key)
    if verb == "delete":
        return model.pop(key, None) is not None
    return sorted(each for each in model if each.startswith(key))


@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.lists(CALLS, min_size=40, max_size=60))
def test_every_store_does_as_a_dictionary(store_venue: StoreVenue, calls: list[tuple[Any, ...]]) -> None:
    async def scene(ground: Ground) -> None:
        store, model = await open_store(ground), dict[str, bytes]()
        for left in await store.list_keys():
            await store.delete(left)
        for number, (verb, *more) in enumerate(calls):
            assert await getattr(store, verb)(*more) == expected(model, verb, *more), f"call {number}: {verb} {more}"

    store_venue.play(scene, empty=TABLES if store_venue.is_sql else ())
