"""Checkpoint stores, held to their contract on every backend and in both colours."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

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
