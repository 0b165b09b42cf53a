"""What idempotency stores that share their keys must do, in any colour."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from holdfast.stores import SyncIdempotencyStore
from holdfast.testing.colours import Colour
from holdfast.testing.contract.store_ground import cancelled_for_good, elsewhere
from holdfast.testing.contract.store_idempotency import open_store, tables_of

if TYPE_CHECKING:
    from holdfast.testing.contract.store_ground import Ground, StoreVenue


class SharedIdempotencyContract:
    """What holds between two handles on the same keys."""

    def test_two_handles_see_one_store(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            one, two = await open_store(ground), await open_store(ground)
            for number in range(10):
                key = f"k{number}"
                claims = [elsewhere(store.claim(key, "f")) for store in (one, two) for _ in range(10)]
                won = [claim for claim in await asyncio.gather(*claims) if claim.won]
                assert len(won) == 1
                await two.store_result(key, number, token=won[0].token)
                assert (await one.get(key))["response_data"] == number

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_claim_that_is_cancelled_again_and_again_is_released(self, store_venue: StoreVenue) -> None:
        if store_venue.colour is Colour.SYNC:
            assert not hasattr(SyncIdempotencyStore, "cancel")  # a thread cannot be cancelled
            return

        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            await cancelled_for_good(store.claim("k", "f", lease_seconds=3600))
            assert await store.try_claim("k", "f")

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_crowd_of_claims_ends_with_one_result_a_key(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            stores = [await open_store(ground), await open_store(ground)]
            done: Counter[str] = Counter()

            async def work(number: int) -> None:
                store, key = stores[number % 2], f"k{number % 7}"
                claim = await store.claim(key, "f")
                if claim.won and done[key] == 0 and number % 3 == 0:
                    await store.release_claim(key)
                elif claim.won:
                    done[key] += 1
                    await store.store_result(key, number)

            await asyncio.gather(*(elsewhere(work(number)) for number in range(140)))
            assert set(done.values()) <= {1}
            for key in done:
                assert (await stores[0].get(key))["status_code"] == 200

        store_venue.play(scene, empty=tables_of(store_venue))


__all__ = ["SharedIdempotencyContract"]
