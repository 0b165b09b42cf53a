"""Writes of keys and checkpoints whose reply was lost: they are found again by what they carry, and not made twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.stores.checkpoints.facts import LoadCheckpoints, SaveCheckpoints
from holdfast.stores.checkpoints.queries import checkpoint_queries
from holdfast.stores.idempotency.facts import ClaimKeys, ExtendKeys, FinishKeys, PutKeys, ReleaseKeys
from holdfast.stores.idempotency.queries import idempotency_queries

if TYPE_CHECKING:
    from holdfast.testing.contract.store_ground import Ground, StoreVenue

BACKENDS = ("sqlite", "postgres", "mariadb")
TABLES = ("holdfast_idempotency", "holdfast_checkpoints")


class Pen:
    """Writes rows of a kind, each call in a transaction of its own."""

    def __init__(self, ground: Ground, manager: Any, kind: Any) -> None:
        self._ground, self._manager, self._kind = ground, manager, kind

    async def apply(self, *rows: Any) -> list[Any]:
        return list(await self._ground.on_loop(self._manager.run(lambda tx: self._kind.apply(tx, rows))))

    async def recall(self, *rows: Any) -> list[Any]:
        return list(await self._ground.on_loop(self._manager.run(lambda tx: self._kind.recall(tx, rows))))


def test_key_that_was_claimed_is_recalled_by_its_token(store_venue: StoreVenue) -> None:
    async def scene(ground: Ground) -> None:
        manager = await ground.manager()
        queries = idempotency_queries(manager.dialect, "holdfast", clock_offset_ms=ground.clock_offset_ms)
        claims = Pen(ground, manager, ClaimKeys(queries))
        mine, other = ("k", "f", "t1", 60_000, "null"), ("k", "f", "t2", 60_000, "null")
        assert await claims.recall(mine) == [None]
        [kept] = await claims.apply(mine)
        assert (kept.token, kept.status_code) == ("t1", 0)
        assert [found and found.token for found in await claims.recall(mine, other)] == ["t1", None]
        assert [found.token for found in await claims.apply(mine, other, mine)] == ["t1", "t1", "t1"]

        finishes = Pen(ground, manager, FinishKeys(queries))
        result = ("k", "t1", "t1", "1", 200, "{}", 60_000)
        assert await finishes.recall(result) == [None]
        assert await finishes.apply(result, ("k", "t2", "t2", "2", 200, "{}", 60_000)) == [True, False]
        assert await finishes.recall(result) == [True]
        assert await finishes.apply(result) == [True]
        assert await claims.recall(mine) == [None]
        assert [found.response_data for found in await claims.apply(other)] == ["1"]

    store_venue.play(scene, empty=TABLES)


def test_other_writes_of_keys_are_recalled(store_venue: StoreVenue) -> None:
    async def scene(ground: Ground) -> None:
        manager = await ground.manager()
        queries = idempotency_queries(manager.dialect, "holdfast", clock_offset_ms=ground.clock_offset_ms)
        claims, releases = Pen(ground, manager, ClaimKeys(queries)), Pen(ground, manager, ReleaseKeys(queries))
        await claims.apply(("k", "f", "t1", 60_000, "null"))
        assert await releases.recall(("k", "t1")) == [None]
        assert await releases.apply(("k", "t2"), ("gone", "t1"), ("k", None)) == [False, False, False]
        assert await releases.apply(("k", "t1")) == [True]
        assert await releases.recall(("k", "t1")) == [True]

        await claims.apply(("live", "f", "t1", 60_000, "null"), ("over", "f", "t1", 1_000, "null"))
        await ground.advance(2)
        together = [(key, token) for key in ("live", "over", "gone") for token in (None, "t2", "t1", "t1", None)]
        assert [row for row, done in zip(together, await releases.apply(*together), strict=True) if done] == [
            ("live", "t1"), ("over", "t1"),
        ]  # fmt: skip
        await claims.apply(("over", "f", "t1", 1_000, "null"))
        await ground.advance(2)
        assert await releases.apply(("over", "t2"), ("over", None), ("over", None)) == [False, True, False]

        puts = Pen(ground, manager, PutKeys(queries))
        first, second = ("k", "f", "m1", "1", 200, "{}", 60_000), ("k", "f", "m2", "2", 200, "{}", 60_000)
        assert await puts.recall(first) == [None]
        assert await puts.apply(first, second) == [True, False]
        assert await puts.recall(first, second) == [True, None]
        assert await puts.apply(first) == [True]

        extensions = Pen(ground, manager, ExtendKeys(queries))
        await claims.apply(("l", "f", "t1", 60_000, "null"))
        assert await extensions.apply(("l", "t1", 60_000), ("l", "t2", 60_000), ("k", "m1", 1)) == [True, False, False]
        assert await extensions.recall(("l", "t1", 60_000)) == [None]
        await ground.advance(1)
        assert [found.response_data for found in await claims.apply(("k", "f", "t3", 60_000, "null"))] == ["1"]

    store_venue.play(scene, empty=TABLES)


def test_many_claims_of_one_batch_are_told_apart(store_venue: StoreVenue) -> None:
    async def scene(ground: Ground) -> None:
        manager = await ground.manager()
        queries = idempotency_queries(manager.dialect, "holdfast", clock_offset_ms=ground.clock_offset_ms)
        claims = Pen(ground, manager, ClaimKeys(queries))
        await claims.apply(*((f"k{number}", "f", "old", 1_000, "null") for number in range(0, 300, 3)))
        await ground.advance(2)
        await claims.apply(*((f"k{number}", "f", "live", 60_000, "null") for number in range(1, 300, 3)))
        found = await claims.apply(*((f"k{number}", "f", "new", 60_000, "null") for number in range(300)))
        assert [kept.key for kept in found] == [f"k{number}" for number in range(300)]
        assert [kept.token for kept in found] == ["new", "live", "new"] * 100

    store_venue.play(scene, empty=TABLES)


def test_checkpoint_that_was_saved_is_recalled_by_the_key_of_its_save(store_venue: StoreVenue) -> None:
    async def scene(ground: Ground) -> None:
        manager = await ground.manager()
        queries = checkpoint_queries(manager.dialect, "holdfast", clock_offset_ms=ground.clock_offset_ms)
        saves = Pen(ground, manager, SaveCheckpoints(queries))
        first, second = ("k", b"1", 1, False, "s1"), ("k", b"2", 1, False, "s2")
        assert await saves.recall(first) == [None]
        assert await saves.apply(first, second) == [True, True]
        assert await saves.recall(first, second) == [None, True]
        loads = Pen(ground, manager, LoadCheckpoints(queries))
        assert await loads.apply(("k",), ("none",), ("k",)) == [(b"2",), (), (b"2",)]
        assert await loads.recall(("k",)) == [None]

    store_venue.play(scene, empty=TABLES)
