"""What every idempotency store must do, in any colour."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import CannotSerialize
from holdfast.stores import (
    ClaimState,
    DBIdempotencyStore,
    InMemoryIdempotencyStore,
    RedisIdempotencyStore,
    SyncIdempotencyStore,
)
from holdfast.testing.contract.store_ground import elsewhere
from holdfast.testing.contract.store_wrong_values import NO_KEYS, NO_MOMENTS, Word

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.testing.contract.store_ground import Ground, StoreVenue

TABLES = ("holdfast_idempotency",)
NO_CODES: tuple[Any, ...] = (0, -1, 2**31, 2.5, True, "200", None)


async def open_store(ground: Ground, **options: Any) -> Any:
    """Return one more handle on the idempotency store of *ground*; a memory store has no second one."""
    store: Any
    if ground.venue.is_sql:
        store = DBIdempotencyStore(await ground.manager(), clock_offset_ms=ground.clock_offset_ms, **options)
    elif ground.venue.name == "redis":
        store = RedisIdempotencyStore(await ground.link(), prefix=ground.prefix, **options)
    else:
        store = InMemoryIdempotencyStore(world=ground.world, **options)
    await ground.on_loop(store.initialize())
    ground.afterwards.push_async_callback(_closed, ground, store)
    return ground.face(store, SyncIdempotencyStore)


async def _closed(ground: Ground, store: Any) -> None:
    await ground.on_loop(store.close())


class IdempotencyContract:
    """Claims have one winner, and results live for their time."""

    def test_claim_has_one_winner_whatever_the_fingerprint(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            assert await store.try_claim("k", "same") is True
            assert await elsewhere(store.try_claim("k", "same")) is False
            assert await elsewhere(store.try_claim("k", "other")) is False

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_member_of_an_enum_is_the_key_that_its_text_is(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            assert await store.try_claim(Word.PAY, "f") is True
            assert await elsewhere(store.try_claim("pay", "f")) is False
            await store.store_result(Word.PAY, 1)
            assert (await store.get("pay"))["response_data"] == 1

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_wall_clock_that_is_set_hands_no_claim_on_and_ends_no_result(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            await store.try_claim("claimed", "f", lease_seconds=600)
            await store.set("done", "f", 1, ttl_seconds=600)
            for step in (3600, -7200):
                ground.world.set_clock(ground.world.now() + step)
                assert await elsewhere(store.try_claim("claimed", "f")) is False
                assert await store.cleanup() == 0
            assert (await store.get("done"))["response_data"] == 1
            await ground.advance(700)
            assert await elsewhere(store.try_claim("claimed", "f")) is True
            assert await store.get("done") is None

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_hundred_claimers_have_one_winner(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            for number in range(3):
                claims = [elsewhere(store.try_claim(f"k{number}", "f")) for _ in range(100)]
                assert Counter(await asyncio.gather(*claims)) == {True: 1, False: 99}

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_claim_says_how_it_went(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            won = await store.claim("k", "f")
            assert (won.state, won.won, won.entry, won.result) == (ClaimState.WON, True, None, None)
            late = await elsewhere(store.claim("k", "f"))
            assert (late.state, late.token, late.result) == (ClaimState.IN_PROGRESS, None, None)
            assert late.entry["status_code"] == 0
            assert (await elsewhere(store.claim("k", "g"))).state is ClaimState.CONFLICT
            await store.store_result("k", {"a": 1}, 201, {"x": "y"})
            stored = await elsewhere(store.claim("k", "f"))
            assert stored.state is ClaimState.STORED
            assert (stored.result["response_data"], stored.result["status_code"]) == ({"a": 1}, 201)
            conflict = await elsewhere(store.claim("k", "g"))
            assert conflict.state is ClaimState.CONFLICT
            assert conflict.result["headers"] == {"x": "y"}

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_claim_in_progress_is_shown_with_status_code_zero(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            assert await store.get("k") is None
            await store.try_claim("k", "f")
            entry = await store.get("k")
            assert (entry["status_code"], entry["response_data"], entry["headers"]) == (0, None, {})
            assert (entry["idempotency_key"], entry["fingerprint"]) == ("k", "f")

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_result_comes_back_as_it_was_stored(self, store_venue: StoreVenue) -> None:
        data = {"text": 'ä☃\n"\\', "number": 1.5, "nothing": None, "list": [True, {"deep": []}]}

        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            await store.try_claim("k", "f")
            await store.store_result("k", data, status_code=HTTPStatus.CREATED, headers={"Content-Type": "text/plain"})
            entry = await store.get("k")
            assert entry["response_data"] == data
            assert (entry["status_code"], entry["headers"]) == (201, {"Content-Type": "text/plain"})
            created, expires = (datetime.fromisoformat(entry[name]) for name in ("created_at", "expires_at"))
            assert created.utcoffset() == timedelta(0)
            assert expires > created

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_result_lives_its_whole_time_from_completion(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground, lease_seconds=300)
            await store.try_claim("k", "f")
            await ground.advance(200)
            await store.store_result("k", 1, ttl_seconds=86400)
            await ground.advance(86300)
            assert (await store.get("k"))["response_data"] == 1
            assert await elsewhere(store.try_claim("k", "f")) is False
            await ground.advance(200)
            assert await store.get("k") is None

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_expired_result_is_claimed_anew_by_one_and_whatever_its_fingerprint(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            await store.set("k", "old", {"v": 1}, 200, {}, ttl_seconds=10)
            await ground.advance(11)
            claims = [elsewhere(store.try_claim("k", "new")) for _ in range(20)]
            assert Counter(await asyncio.gather(*claims)) == {True: 1, False: 19}
            entry = await store.get("k")
            assert (entry["fingerprint"], entry["status_code"], entry["response_data"]) == ("new", 0, None)

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_set_stores_unless_the_key_is_taken(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            stored = await store.set(
                key="k",
                fingerprint="f",
                response_data={"value": 42},
                status_code=200,
                headers={"a": "b"},
                ttl_seconds=60,
            )
            assert stored is True
            assert await store.set("k", "g", "second", 200, {}, 60) is False
            assert (await store.get("k"))["response_data"] == {"value": 42}
            await store.try_claim("l", "f")
            assert await elsewhere(store.set("l", "f", 1)) is False
            await ground.advance(61)
            assert await store.set("k", "g", "third", ttl_seconds=60) is True
            assert (await store.get("k"))["response_data"] == "third"

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_cleanup_removes_what_has_expired_and_counts_it(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)

            async def fill(part: int) -> None:
                for number in range(100):
                    await store.set(f"k{part}-{number}", "f", number, ttl_seconds=3600)

            await asyncio.gather(*(fill(part) for part in range(12)))
            await store.set("stays", "f", 1, ttl_seconds=36_000)
            await store.try_claim("claimed", "f", lease_seconds=3600)
            assert await store.cleanup() == 0
            await ground.advance(3601)
            assert await store.cleanup() == 1200
            assert await store.cleanup() == 0
            assert (await store.get("stays"))["response_data"] == 1
            await ground.advance(86400)
            assert await store.cleanup() == 2

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_cleanup_before_a_time_takes_any_zone_and_never_what_lives(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            await store.set("early", "f", 1, ttl_seconds=10)
            await store.set("late", "f", 1, ttl_seconds=1000)
            between = datetime.fromisoformat((await store.get("early"))["expires_at"]) + timedelta(seconds=60)
            await store.set("lives", "f", 1, ttl_seconds=100000)
            await ground.advance(2000)
            other_zone = between.astimezone(datetime.now(UTC).astimezone().tzinfo).isoformat()
            assert await store.cleanup(before=other_zone) == 1
            assert await store.cleanup(before=datetime(2999, 1, 1, tzinfo=UTC)) == 1
            assert (await store.get("lives"))["response_data"] == 1
            with pytest.raises(ValueError, match="time zone"):
                await store.cleanup(before="2026-01-01T00:00:00")
            for bad, refused in NO_MOMENTS:
                with pytest.raises(refused, match="before is"):
                    await store.cleanup(before=bad)

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_keys_that_look_alike_are_different_and_long_ones_are_kept_whole(self, store_venue: StoreVenue) -> None:
        keys = ["k", "K", "k ", "\uff4b", "k\u0301", "%", "_", "x" * 512, "x" * 511, "ä" * 512]

        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            assert [await store.try_claim(key, "f") for key in keys] == [True] * len(keys)
            for key in keys:
                await store.store_result(key, key)
            assert [(await store.get(key))["response_data"] for key in keys] == keys

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_what_does_not_fit_is_refused_at_the_door(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            refusals: tuple[tuple[Any, type[Exception]], ...] = (
                *((store.try_claim(wrong, "f"), refused) for wrong, refused in NO_KEYS),
                *((store.get(wrong), refused) for wrong, refused in NO_KEYS),
                *((store.try_claim("k", wrong), refused) for wrong, refused in NO_KEYS if wrong != ""),
                *((store.release_claim("k", token=wrong), refused) for wrong, refused in NO_KEYS[1:]),
                (store.set("k", "f", {"a": object()}), CannotSerialize),
                *((store.set("k", "f", 1, code), ValueError) for code in NO_CODES),
                (store.set("k", "f", 1, ttl_seconds=0), ValueError),
                (store.try_claim("k", "f", lease_seconds=-1), ValueError),
            )
            for call, error in refusals:
                with pytest.raises(error):
                    await call
            assert await store.get("k") is None

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_result_that_does_not_fit_leaves_the_claim_to_be_released(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            await store.try_claim("k", "f")
            with pytest.raises(CannotSerialize, match=r"\$\.a"):
                await store.store_result("k", {"a": object()})
            for code in NO_CODES:
                with pytest.raises(ValueError, match="status code"):
                    await store.store_result("k", 1, code)
            for headers in ("x", [("set-cookie", "a"), ("set-cookie", "b")]):
                with pytest.raises(TypeError, match="headers of a result are a dict"):
                    await store.store_result("k", 1, headers=headers)
            assert (await store.get("k"))["status_code"] == 0
            assert await store.release_claim("k") is True

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_large_results_come_back_whole(self, store_venue: StoreVenue) -> None:
        data = {"text": "ä" * 200_000}

        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            await store.try_claim("k", "f")
            await store.store_result("k", data)
            assert (await store.get("k"))["response_data"] == data

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_documented_cycle_runs_as_written(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            idempotency = await open_store(ground)
            done: list[str] = []

            async def request() -> Any:
                cached = await idempotency.get("req-123")
                if cached is not None:
                    return cached["response_data"]
                claimed = await idempotency.try_claim("req-123", fingerprint="sha256:abc")
                assert claimed
                try:
                    done.append("processed")
                    await idempotency.store_result("req-123", {"ok": True}, status_code=200, headers={})
                except Exception:
                    await idempotency.release_claim("req-123")
                    raise
                return {"ok": True}

            assert await request() == await request() == {"ok": True}
            assert done == ["processed"]
            await idempotency.cleanup()

        store_venue.play(scene, empty=tables_of(store_venue))


def tables_of(venue: StoreVenue) -> Iterable[str]:
    """Return the tables that a scene begins without a row in."""
    return TABLES if venue.is_sql else ()


__all__ = ["TABLES", "IdempotencyContract", "open_store", "tables_of"]
