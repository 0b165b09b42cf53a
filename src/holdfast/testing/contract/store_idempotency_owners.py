"""Who may end the claim of an idempotency key, in any colour: its owner, and anybody once it is nobody's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.errors import ClaimLost, TooLong
from holdfast.testing.contract.store_ground import elsewhere
from holdfast.testing.contract.store_idempotency import open_store, tables_of

if TYPE_CHECKING:
    from holdfast.testing.contract.store_ground import Ground, StoreVenue


class IdempotencyOwnersContract:
    """A claim is its owner's until it expires or is ended."""

    def test_claim_of_a_dead_worker_is_taken_over_and_its_late_result_is_refused(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            dead = await store.claim("k", "f", lease_seconds=300)
            await ground.advance(301)
            heir = await elsewhere(store.claim("k", "f", lease_seconds=300))
            assert heir.won
            with pytest.raises(ClaimLost, match="'k'"):
                await store.store_result("k", "late")
            assert await store.release_claim("k", token=dead.token) is False
            assert await store.extend_claim("k", token=dead.token) is False
            await store.store_result("k", "mine", token=heir.token)
            assert (await store.get("k"))["response_data"] == "mine"

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_claim_that_expired_and_nobody_took_may_still_be_ended_by_its_owner(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            await store.try_claim("k", "f", lease_seconds=5)
            await ground.advance(6)
            assert await store.get("k") is None
            await store.store_result("k", "in time")
            assert (await store.get("k"))["response_data"] == "in time"

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_note_of_a_dead_worker_is_inherited_for_the_same_purpose_alone(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            for key in ("same", "other", "released"):
                claim = await store.claim(key, "f", lease_seconds=30, note=f"run of {key}")
                assert claim.note == f"run of {key}"
                assert (await store.get(key))["response_data"] is None
            await store.release_claim("released")
            await store.set("result", "f", "no note", ttl_seconds=30)
            await ground.advance(31)
            assert (await elsewhere(store.claim("result", "f", note="new"))).note == "new"
            await store.cleanup()
            heirs = [await elsewhere(store.claim(key, "f", note="new")) for key in ("same", "released")]
            assert [heir.note for heir in heirs] == ["run of same", "new"]
            assert (await elsewhere(store.claim("other", "g", note="new"))).note == "new"
            assert (await elsewhere(store.claim("plain", "f"))).note is None

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_only_the_owner_ends_a_claim(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            await store.try_claim("k", "f")
            with pytest.raises(ClaimLost):
                await elsewhere(store.store_result("k", "stolen"))
            with pytest.raises(ClaimLost):
                await elsewhere(store.store_result("k", "stolen", token="made up"))  # noqa: S106 -- no secret
            assert await elsewhere(store.release_claim("k")) is False
            assert await elsewhere(store.extend_claim("k")) is False
            assert (await store.get("k"))["status_code"] == 0
            await store.store_result("k", "ours")
            assert (await store.get("k"))["response_data"] == "ours"

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_token_may_be_given_by_another_task(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            claim = await store.claim("k", "f")
            await elsewhere(store.store_result("k", 1, token=claim.token))
            other = await store.claim("l", "f", token="my own")  # noqa: S106 -- no secret
            assert other.token == "my own"  # noqa: S105 -- no secret
            assert (await elsewhere(store.claim("l", "f", token="my own"))).won  # noqa: S106 -- no secret
            assert await elsewhere(store.release_claim("l", token="my own")) is True  # noqa: S106 -- no secret

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_token_may_be_as_long_as_a_key(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            for token in ("x" * 512, "ä" * 512):
                assert (await store.claim("k", "f", token=token)).token == token
                assert not (await elsewhere(store.claim("k", "f", token=token[:-1]))).won
                assert await elsewhere(store.release_claim("k", token=token)) is True
            with pytest.raises(TooLong):
                await store.claim("k", "f", token="x" * 513)

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_claim_that_is_made_again_under_its_token_has_its_lease_anew(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            for _ in range(2):
                assert (await store.claim("k", "f", lease_seconds=10, token="mine")).won  # noqa: S106 -- no secret
                await ground.advance(6)
            assert not (await elsewhere(store.claim("k", "f"))).won

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_claim_that_is_nobodys_any_more_may_be_ended_by_anyone(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            for key in ("k", "l"):
                await store.try_claim(key, "f", lease_seconds=5)
            await ground.advance(6)
            await elsewhere(store.store_result("k", "found it done"))
            assert (await store.get("k"))["response_data"] == "found it done"
            assert await elsewhere(store.release_claim("l")) is True

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_result_that_has_expired_is_no_claim_that_anyone_may_end(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            await store.set("k", "f", "old", ttl_seconds=5)
            await ground.advance(6)
            with pytest.raises(ClaimLost):
                await elsewhere(store.store_result("k", "new"))
            assert await elsewhere(store.release_claim("k")) is False
            assert await store.get("k") is None

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_released_key_may_be_claimed_again(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            await store.try_claim("k", "f")
            assert await store.release_claim("k") is True
            assert await store.get("k") is None
            assert await store.release_claim("k") is False
            assert await elsewhere(store.try_claim("k", "other")) is True

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_result_is_not_released_or_stored_over(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            claim = await store.claim("k", "f")
            await store.store_result("k", "first", token=claim.token)
            await store.store_result("k", "first", token=claim.token)  # the reply was lost: the same again
            with pytest.raises(ClaimLost):
                await store.store_result("k", "second", token=claim.token)
            assert await store.release_claim("k", token=claim.token) is False
            assert (await store.get("k"))["response_data"] == "first"

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_extended_claim_lasts_longer(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            await store.try_claim("k", "f", lease_seconds=1000)
            for _ in range(3):
                await ground.advance(800)
                assert await store.extend_claim("k", lease_seconds=1000) is True
                assert await elsewhere(store.try_claim("k", "f")) is False
            await ground.advance(1001)
            assert await elsewhere(store.try_claim("k", "f")) is True
            assert await store.extend_claim("k", lease_seconds=1000) is False

        store_venue.play(scene, empty=tables_of(store_venue))
