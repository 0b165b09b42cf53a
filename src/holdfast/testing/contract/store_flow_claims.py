"""Who may go on from a flow checkpoint, and what may be deleted: the same on every backend."""

from __future__ import annotations

import asyncio
import math
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import ConfigurationError, StaleCheckpoint
from holdfast.stores import CheckpointClaim, CheckpointStatus
from holdfast.testing.contract.store_flow_stage import checkpoint, ended, open_backend, open_two, saved

if TYPE_CHECKING:
    from holdfast.testing.contract.store_ground import Ground, StoreVenue


class FlowClaimContract:
    """One winner, for as long as it says that it is there."""

    def test_one_of_a_hundred_claimers_wins(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            one, two = await open_two(ground)
            for _ in range(3):
                made = checkpoint(status=CheckpointStatus.PAUSED)
                await one.save(made)
                claims = await asyncio.gather(*((one, two)[n % 2].claim(made.id) for n in range(100)))
                assert sum(claim is not None for claim in claims) == 1

        store_venue.play(scene)

    def test_a_claim_ends_with_its_lease_and_shuts_out_who_had_it(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            one, two = await open_two(ground)
            made = checkpoint()
            await one.save(made)
            first = await one.claim(made.id, lease=3000)
            assert await two.claim(made.id) is None
            await ground.advance(2000)
            assert await one.extend_claim(first, lease=3000) is True
            await ground.advance(2000)
            assert await two.claim(made.id) is None
            await ground.advance(2000)
            second = await two.claim(made.id, lease=timedelta(seconds=3000))
            assert second is not None
            assert await one.extend_claim(first) is False
            assert await one.release_claim(first) is False
            with pytest.raises(StaleCheckpoint):
                await one.update(first.checkpoint)
            with pytest.raises(StaleCheckpoint):
                await one.update(made)
            await two.update(second.checkpoint)
            assert await two.release_claim(second) is True
            assert await one.claim(made.id) is not None

        store_venue.play(scene)

    def test_a_claim_that_is_over_is_not_had_any_more_though_nobody_came_since(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            backend = await open_backend(ground)
            made = checkpoint(id="1")
            await backend.save(made)
            claim = await backend.claim("1", lease=3000)
            await ground.advance(3001)
            assert await backend.extend_claim(claim, lease=3000) is False
            assert await backend.release_claim(claim) is False
            with pytest.raises(StaleCheckpoint):
                await backend.follow(claim, checkpoint(id="2", parent_checkpoint_id="1"))
            assert await backend.claim("1") is not None

        store_venue.play(scene)

    def test_a_wall_clock_that_is_set_hands_no_claim_on(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            one, two = await open_two(ground)
            made = checkpoint()
            await one.save(made)
            claim = await one.claim(made.id, lease=600)
            ground.world.set_clock(ground.world.now() + 3600)
            goes_by_it = ground.venue.name == "file"  # the machine's clock is all that processes of a folder share
            assert (await two.claim(made.id) is None) is not goes_by_it
            assert await one.extend_claim(claim, lease=600) is not goes_by_it

        store_venue.play(scene)

    def test_a_claim_passes_on_to_what_follows_and_a_late_one_stores_nothing(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            one, two = await open_two(ground)
            made = checkpoint(id="1")
            await one.save(made)
            first = await one.claim("1", lease=3000)
            later = await one.follow(first, checkpoint(id="2", minute=1, parent_checkpoint_id="1"), lease=3000)
            assert later.checkpoint.revision == 1
            assert await two.claim("2") is None
            with pytest.raises(StaleCheckpoint):
                await one.follow(first, checkpoint(id="3"))
            await ground.advance(3001)
            taken = await two.claim("2", lease=3000)
            assert taken is not None
            with pytest.raises(StaleCheckpoint):
                await one.follow(later, checkpoint(id="4"))
            with pytest.raises(ConfigurationError):
                await two.follow(taken, taken.checkpoint)
            assert [each.id for each in await two.list_by_flow("flow")] == ["2", "1"]
            with pytest.raises(StaleCheckpoint):
                await two.follow(taken, checkpoint(id="1"))
            assert await two.extend_claim(taken) is True  # what failed has not let go

        store_venue.play(scene)

    def test_what_is_over_or_not_there_cannot_be_claimed(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            backend = await open_backend(ground)
            over = [ended(0), checkpoint(status=CheckpointStatus.CANCELED)]
            failed = checkpoint(status=CheckpointStatus.FAILED)
            await saved(backend, *over, failed)
            assert [await backend.claim(each.id) for each in over] == [None, None]
            assert await backend.claim("nobody") is None
            assert await backend.claim(failed.id) is not None
            nobody = CheckpointClaim(checkpoint(), "token")
            assert await backend.extend_claim(nobody) is False
            assert await backend.release_claim(nobody) is False

        store_venue.play(scene)


class FlowRetentionContract:
    """What may go, and what never does."""

    def test_count_zero_deletes_all_that_has_ended(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            backend = await open_backend(ground)
            await saved(backend, *(ended(minute, run_id=str(minute)) for minute in range(5)))
            await backend.save(checkpoint("other"))
            assert await backend.cleanup("flow", keep_count=2) == 3
            assert len(await backend.list_by_flow("flow")) == 2
            assert await backend.cleanup("flow", keep_count=0) == 2
            assert await backend.list_by_flow("flow") == []
            assert await backend.list_by_flow("flow", status="completed") == []
            assert await backend.list_by_run("0") == []
            assert len(await backend.list_by_flow("other")) == 1
            with pytest.raises(ConfigurationError):
                await backend.cleanup("flow", keep_count=-1)
            for days in (-1, math.inf, math.nan, 1e9):
                with pytest.raises(ConfigurationError, match="older_than_days"):
                    await backend.cleanup("other", older_than_days=days)
            assert len(await backend.list_by_flow("other")) == 1

        store_venue.play(scene)

    def test_age_is_exact_and_any_number_of_days(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            backend = await open_backend(ground)
            now = datetime.fromtimestamp(ground.world.now(), UTC)
            ages = (0.5, 1.5, 29.9, 30.1, 400)
            for age in ages:
                made = ended(0, id=str(age))
                made.created_at = now - timedelta(days=age)
                await backend.save(made)
            assert await backend.cleanup("flow", keep_count=None, older_than_days=365) == 1
            assert await backend.cleanup("flow", keep_count=10, older_than_days=30) == 1
            assert await backend.cleanup("flow", keep_count=None, older_than_days=1) == 2
            assert [each.id for each in await backend.list_by_flow("flow")] == ["0.5"]
            assert await backend.cleanup("flow", keep_count=None, older_than_days=0) == 1

        store_venue.play(scene)

    def test_what_waits_and_the_newest_of_a_live_run_stay(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            backend = await open_backend(ground)
            waits = checkpoint(minute=0, run_id="a", id="waits")
            waits.mark_pending_input("node")
            await saved(
                backend,
                waits,
                checkpoint(minute=1, run_id="b", id="older"),
                checkpoint(minute=2, run_id="b", id="newest of b"),
                checkpoint(minute=3, run_id="c", id="paused", status=CheckpointStatus.PAUSED),
                ended(4, run_id="d", id="ended"),
            )
            assert await backend.cleanup("flow", keep_count=0, older_than_days=0) == 2
            assert {each.id for each in await backend.list_by_flow("flow")} == {"waits", "newest of b", "paused"}

        store_venue.play(scene)

    def test_cleaning_up_a_run_touches_no_other(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            backend = await open_backend(ground)
            for run in ("a", "b"):
                await saved(backend, *(ended(minute, run_id=f"{run}{minute}", wf_run_id=run) for minute in range(4)))
            assert await backend.cleanup_run("a", keep_count=1) == 3
            assert len(await backend.list_by_run("a")) == 1
            assert len(await backend.list_by_run("b")) == 4

        store_venue.play(scene)

    def test_the_newest_of_a_live_run_stays_though_a_run_of_another_flow_has_its_id(
        self, store_venue: StoreVenue
    ) -> None:
        async def scene(ground: Ground) -> None:
            backend = await open_backend(ground)
            await saved(backend, checkpoint("letters", id="letter"), checkpoint("orders", minute=1, id="order"))
            assert await backend.cleanup_run("run", keep_count=0) == 0
            assert {each.id for each in await backend.list_by_run("run")} == {"letter", "order"}

        store_venue.play(scene)

    def test_a_backend_with_a_limit_makes_room_by_itself(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            backend = await open_backend(ground, max_checkpoints=3)
            made = [checkpoint(minute=minute, id=str(minute)) for minute in range(6)]
            made[0].mark_pending_input("node")
            await saved(backend, *made)
            assert [each.id for each in await backend.list_by_flow("flow")] == ["5", "4", "3", "0"]
            with pytest.raises(ConfigurationError):
                await open_backend(ground, max_checkpoints=0)

        store_venue.play(scene)

    def test_what_was_changed_meanwhile_is_not_deleted(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            one, two = await open_two(ground)
            made = [checkpoint(minute=n, id=str(n), status=CheckpointStatus.FAILED, run_id=str(n)) for n in range(30)]
            await saved(one, *made)

            async def claim(number: int) -> Any:
                return await two.claim(str(number))

            deleted, *claims = await asyncio.gather(one.cleanup("flow", keep_count=0), *map(claim, range(30)))
            left = {each.id for each in await one.list_by_flow("flow", limit=None)}
            assert len(left) == 30 - deleted
            assert {claim.checkpoint.id for claim in claims if claim is not None} <= left

        store_venue.play(scene)

    def test_what_somebody_holds_is_not_cleaned_up(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            one, two = await open_two(ground)
            failed = checkpoint(status=CheckpointStatus.FAILED)
            await one.save(failed)
            assert await one.claim(failed.id, lease=3000) is not None
            assert await two.cleanup("flow", keep_count=0) == 0
            await ground.advance(3001)
            assert await two.cleanup("flow", keep_count=0) == 1

        store_venue.play(scene)

    def test_more_than_a_thousand_are_cleaned_up_at_once(self, store_venue: StoreVenue) -> None:
        count = 1100 if store_venue.name in {"memory", "redis"} else 300  # the rest of the way is a long test's

        async def scene(ground: Ground) -> None:
            backend = await open_backend(ground)
            await asyncio.gather(*(backend.save(ended(0, id=f"{n}")) for n in range(count)))
            assert await backend.cleanup("flow", keep_count=0) == count
            assert await backend.list_by_flow("flow") == []

        store_venue.play(scene)


__all__ = ["FlowClaimContract", "FlowRetentionContract"]
