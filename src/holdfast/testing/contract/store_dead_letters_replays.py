"""What every repository of failed operations must do, in any colour: acquiring, completing, leases and tokens."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.stores import ReplayEnd
from holdfast.testing.colours import Colour
from holdfast.testing.contract.store_dead_letters_stage import ALL_STATUSES, made, open_letters, play

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.testing.contract.store_ground import Ground, StoreVenue


class DeadLetterReplays:
    """Acquiring, completing, leases and tokens."""

    def test_acquiring_sets_replaying_and_counts_the_attempt(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, _: Ground) -> None:
            record = await letters.create("d", "t")
            taken = await letters.try_acquire_for_replay(record.id, 2)
            assert (taken.status, taken.retry_count) == ("replaying", 1)
            assert taken.last_retry_at == taken.updated_at
            assert await letters.get_by_id(record.id) == taken
            assert await letters.try_acquire_for_replay(record.id, 2) is None

        play(store_venue, scene)

    def test_limit_of_the_caller_decides_who_acquires(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, _: Ground) -> None:
            record = await letters.create("d", "t", retry_count=3, max_retries=2)
            assert await letters.try_acquire_for_replay(record.id, 3) is None
            assert (await letters.try_acquire_for_replay(record.id, 4)).retry_count == 4

        play(store_venue, scene)

    def test_many_are_taken_and_ended_in_one_step(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, _: Ground) -> None:
            one, two, spent, held = [await letters.create("d", "t", retry_count=n) for n in (0, 1, 2, 0)]
            await letters.try_acquire_for_replay(held.id, 1)
            wanted = [one.id, two.id, spent.id, held.id, "nobody", one.id]
            taken = {each.id: each for each in await letters.acquire_many(wanted)}
            assert {entry: each.retry_count for entry, each in taken.items()} == {one.id: 1, two.id: 2}
            assert await letters.get_by_id(one.id) == taken[one.id]
            assert [each.id for each in await letters.acquire_many([spent.id], 9)] == [spent.id]
            ends = [
                ReplayEnd(id=one.id, token=taken[one.id].replay_token, success=True, resolution_type="manual_replay"),
                ReplayEnd(id=two.id, token=None, success=False, note="again", error_details={"code": 500}),
                ReplayEnd(id=held.id, token="wrong", success=True),  # noqa: S106 -- that is the point
                ReplayEnd(id="nobody", token=None, success=True),
            ]
            assert await letters.complete_many(ends) == [True, True, False, False]
            assert await letters.complete_many(ends[:1]) == [True]  # this very replay has ended so
            first, second = await letters.get_by_id(one.id), await letters.get_by_id(two.id)
            assert (first.status, first.resolution_type) == ("resolved", "manual_replay")
            assert (second.status, second.error_message) == ("requires_review", "again")
            assert second.metadata == {"code": 500}
            with pytest.raises(ValueError, match="twice"):
                await letters.complete_many([ends[0], ends[0]])
            assert await letters.acquire_many([]) == await letters.complete_many([]) == []

        play(store_venue, scene)

    def test_many_are_ended_and_summed_up_though_they_are_large_together(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, _: Ground) -> None:
            made_ = [await letters.create("d", f"t{number}", max_retries=1) for number in range(70)]
            taken = await letters.acquire_many([each.id for each in made_])
            note = "x" * 250_000
            ends = [ReplayEnd(id=each.id, token=each.replay_token, success=False, note=note) for each in taken]
            assert await letters.complete_many(ends) == [True] * len(made_)
            assert await letters.count(status="requires_review") == len(made_)
            assert (await letters.get_by_id(made_[-1].id)).resolution_note == note
            assert await letters.compress_and_evict_oldest(len(made_)) == len(made_)
            assert (await letters.get_compressed_entries(limit=1))[0].sample_error_message == note

        play(store_venue, scene)

    def test_success_resolves_with_what_is_given(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, _: Ground) -> None:
            record = await letters.create("d", "t", "boom")
            await letters.try_acquire_for_replay(record.id, 2)
            assert await letters.complete_replay(record.id, True, "manual_replay", "fine", 9)
            read = await letters.get_by_id(record.id)
            assert (read.status, read.resolution_type, read.resolution_note) == ("resolved", "manual_replay", "fine")
            assert (read.resolved_by_id, read.error_message) == (9, "boom")
            assert read.resolved_at == read.updated_at

        play(store_venue, scene)

    def test_failure_returns_to_pending_and_at_the_cap_requires_review(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, _: Ground) -> None:
            record = await letters.create("d", "t", "first", metadata={"kept": 1})
            await letters.try_acquire_for_replay(record.id, 5)
            assert await letters.complete_replay(record.id, False, note="second", error_details={"code": 500})
            read = await letters.get_by_id(record.id)
            assert (read.status, read.error_message, read.resolution_note) == ("pending", "second", "second")
            assert (read.metadata, read.error) == ({"kept": 1, "code": 500}, "first")
            await letters.try_acquire_for_replay(record.id, 5)
            assert await letters.complete_replay(record.id, False)
            read = await letters.get_by_id(record.id)
            assert (read.status, read.retry_count, read.error_message) == ("requires_review", 2, "second")
            assert read.resolution_note == "second"

        play(store_venue, scene)

    def test_force_takes_what_requires_review_and_leaves_stamps(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, _: Ground) -> None:
            record = await letters.create("d", "t", retry_count=2, metadata={"kept": True})
            await letters.update_status(record.id, "requires_review")
            assert await letters.try_acquire_for_replay(record.id, 99) is None
            taken = await letters.try_acquire_for_replay(record.id, 0, force=True)
            assert (taken.status, taken.retry_count) == ("replaying", 1)
            assert taken.metadata == {"kept": True, "previous_total_retries": 2, "force_redrive_count": 1}
            for _attempt in range(2):
                await letters.complete_replay(record.id, False)
                await letters.try_acquire_for_replay(record.id, 2)
            read = await letters.get_by_id(record.id)
            assert (read.status, read.retry_count) == ("requires_review", 2)
            again = await letters.try_acquire_for_replay(record.id, 0, force=True)
            assert again.metadata == {"kept": True, "previous_total_retries": 4, "force_redrive_count": 2}

        play(store_venue, scene)

    def test_force_takes_nothing_in_any_other_status(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, _: Ground) -> None:
            record = await letters.create("d", "t")
            for status in set(ALL_STATUSES) - {"pending", "requires_review"}:
                await letters.update_status(record.id, status)
                assert await letters.try_acquire_for_replay(record.id, 99, force=True) is None
                assert (await letters.get_by_id(record.id)).metadata == {}

        play(store_venue, scene)

    def test_late_completion_changes_nothing(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, ground: Ground) -> None:
            record = await letters.create("d", "t")
            late = await letters.try_acquire_for_replay(record.id, 9)
            await ground.advance(31 * 60)
            assert await letters.release_stale_replaying() == 1
            free = await letters.get_by_id(record.id)
            for success in (True, False):
                assert not await letters.complete_replay(record.id, success, token=late.replay_token)
            assert await letters.get_by_id(record.id) == free
            held = await letters.try_acquire_for_replay(record.id, 9)
            assert held.replay_token != late.replay_token
            assert not await letters.complete_replay(record.id, True, token=late.replay_token)
            assert await letters.get_by_id(record.id) == held
            assert await letters.complete_replay(record.id, True, token=held.replay_token)
            resolved = await letters.get_by_id(record.id)
            assert not await letters.complete_replay(record.id, False, token=late.replay_token)
            assert await letters.get_by_id(record.id) == resolved

        play(store_venue, scene)

    def test_completion_of_what_has_ended_changes_nothing(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, _: Ground) -> None:
            record = await letters.create("d", "t")
            taken = await letters.try_acquire_for_replay(record.id, 2)
            assert await letters.complete_replay(record.id, True)
            resolved = await letters.get_by_id(record.id)
            assert not await letters.complete_replay(record.id, False)
            assert not await letters.complete_replay(record.id, True)
            assert not await letters.complete_replay(record.id, False, token=taken.replay_token)
            assert await letters.complete_replay(record.id, True, token=taken.replay_token)  # this very replay did
            assert await letters.get_by_id(record.id) == resolved

        play(store_venue, scene)

    def test_operation_that_nobody_holds_may_be_completed_by_anyone(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, _: Ground) -> None:
            one, two = [await letters.create("d", "t") for _ in range(2)]
            assert await letters.complete_replay(one.id, True, "manual_fix")
            assert (await letters.get_by_id(one.id)).status == "resolved"
            assert await letters.complete_replay(two.id, False)
            assert (await letters.get_by_id(two.id)).retry_count == 1

        play(store_venue, scene)

    def test_replay_that_was_ended_by_its_token_is_held_no_longer(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, _: Ground) -> None:
            entry = (await letters.create("d", "t", max_retries=9)).id
            ends: list[Callable[[str], Any]] = [
                lambda token: letters.complete_replay(entry, False, token=token),
                lambda token: letters.complete_many([ReplayEnd(id=entry, token=token, success=False)]),
                lambda token: letters.return_replay_attempt(entry, token=token),
            ]
            for end in ends:
                assert await end((await letters.try_acquire_for_replay(entry, 9)).replay_token)
                assert await letters.complete_replay(entry, False)  # by anyone, since nobody holds it

        play(store_venue, scene)

    def test_operation_held_by_another_handle_is_not_completed_without_its_token(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, ground: Ground) -> None:
            if store_venue.name == "memory":
                return
            record = await letters.create("d", "t")
            taken = await letters.try_acquire_for_replay(record.id, 2)
            other = await open_letters(ground)
            assert not await other.complete_replay(record.id, True, token="somebody else's")  # noqa: S106
            assert await other.complete_replay(record.id, True, token=taken.replay_token)

        play(store_venue, scene)

    def test_status_said_by_hand_takes_the_operation_from_its_holder(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, _: Ground) -> None:
            record = await letters.create("d", "t")
            await letters.try_acquire_for_replay(record.id, 2)
            await letters.update_status(record.id, "pending")
            assert not await letters.complete_replay(record.id, True)
            assert (await letters.get_by_id(record.id)).status == "pending"

        play(store_venue, scene)

    def test_attempt_that_is_given_back_does_not_count(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, _: Ground) -> None:
            record = await letters.create("d", "t", max_retries=1)
            await letters.try_acquire_for_replay(record.id, 1)
            assert await letters.return_replay_attempt(record.id)
            read = await letters.get_by_id(record.id)
            assert (read.status, read.retry_count, read.replay_token) == ("pending", 0, None)
            assert not await letters.return_replay_attempt(record.id)
            assert await letters.try_acquire_for_replay(record.id, 1)

        play(store_venue, scene)

    def test_stale_replay_is_released_strictly_after_its_time(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, ground: Ground) -> None:
            record = await letters.create("d", "t", max_retries=1)
            await letters.try_acquire_for_replay(record.id, 1)
            await ground.advance(29 * 60)
            assert await letters.release_stale_replaying(30) == 0
            await ground.advance(2 * 60)
            assert await letters.release_stale_replaying(30) == 1
            read = await letters.get_by_id(record.id)
            assert (read.status, read.retry_count) == ("pending", 1)  # also at its cap
            assert await letters.release_stale_replaying(30) == 0

        play(store_venue, scene)

    def test_replay_that_says_it_is_alive_is_not_released(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, ground: Ground) -> None:
            record = await letters.create("d", "t")
            await letters.try_acquire_for_replay(record.id, 2)
            for _ in range(3):
                await ground.advance(20 * 60)
                assert await letters.extend_replay(record.id)
                assert await letters.release_stale_replaying(30) == 0
            assert not await letters.extend_replay(record.id, token="another")  # noqa: S106
            assert await letters.complete_replay(record.id, True)
            assert not await letters.extend_replay(record.id)

        play(store_venue, scene)

    @pytest.mark.parametrize("success", [True, False])
    def test_late_word_about_a_replay_that_has_ended_changes_nothing(
        self, store_venue: StoreVenue, *, success: bool
    ) -> None:
        """Its token stays with the operation, by which the end itself is known again; it holds nothing."""

        async def scene(letters: Any, _: Ground) -> None:
            record = await letters.create("d", "t", max_retries=2)
            token = (await letters.try_acquire_for_replay(record.id, 2)).replay_token
            assert await letters.complete_replay(record.id, success, token=token)
            ended = await letters.get_by_id(record.id)
            assert not await letters.extend_replay(record.id, token=token)
            assert not await letters.return_replay_attempt(record.id, token=token)
            assert await letters.get_by_id(record.id) == ended

        play(store_venue, scene)

    @pytest.mark.parametrize("status", ["replaying", "resolved", "pending"])
    def test_late_word_of_a_holder_changes_nothing_of_what_was_said_by_hand(
        self, store_venue: StoreVenue, status: str
    ) -> None:
        async def scene(letters: Any, _: Ground) -> None:
            record = await letters.create("d", "t")
            token = (await letters.try_acquire_for_replay(record.id, 2)).replay_token
            await letters.update_status(record.id, status)
            said = await letters.get_by_id(record.id)
            assert said.replay_token is None
            assert not await letters.extend_replay(record.id, token=token)
            assert not await letters.return_replay_attempt(record.id, token=token)
            for success in (True, False):
                assert not await letters.complete_replay(record.id, success, token=token)
            assert await letters.get_by_id(record.id) == said

        play(store_venue, scene)

    def test_operation_that_is_made_pending_by_hand_is_due_at_once_if_it_ever_is(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, _: Ground) -> None:
            due, never = [await letters.create("d", "t", retry_delay=delay) for delay in (60, None)]
            assert [each.id for each in await letters.acquire_due()] == [due.id]
            await letters.complete_replay(due.id, False)  # due in a minute
            for each in due, never:
                await letters.update_status(each.id, "pending")
            assert [each.id for each in await letters.acquire_due()] == [due.id]

        play(store_venue, scene)

    def test_operations_that_are_due_are_taken_the_longest_due_first(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, ground: Ground) -> None:
            first, _, third = await made(letters, ground, "a", "b", "a", retry_delay=60)
            await made(letters, ground, "a")
            taken = await letters.acquire_due(2, domain="a")
            assert [each.id for each in taken] == [first.id, third.id]
            assert {each.status for each in taken} == {"replaying"}
            assert len(await letters.acquire_due(10)) == 1
            assert await letters.acquire_due() == []
            for each in taken:
                assert await letters.complete_replay(each.id, True)

        play(store_venue, scene)

    def test_due_operations_that_were_taken_for_a_cancelled_call_are_given_back(self, store_venue: StoreVenue) -> None:
        async def give_back(letters: Any, taken: list[Any]) -> None:
            for each in taken:
                assert await letters.return_replay_attempt(each.id, token=each.replay_token)

        async def scene(letters: Any, ground: Ground) -> None:
            await made(letters, ground, "a", "b", retry_delay=0)
            for steps in (*range(8), *range(8, 120, 8)):
                taking = asyncio.ensure_future(letters.acquire_due())
                for _ in range(steps):
                    await asyncio.sleep(0)
                taking.cancel()
                await asyncio.wait([taking])
                if not taking.cancelled():
                    await give_back(letters, taking.result())
                taken = await letters.acquire_due()
                assert [each.retry_count for each in taken] == [1, 1]
                await give_back(letters, taken)

        if store_venue.colour is Colour.ASYNC:  # a thread cannot be cancelled
            play(store_venue, scene)

    def test_operation_that_is_due_at_once_is_due_to_whoever_asks_next(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, _: Ground) -> None:
            entry = (await letters.create("d", "t", retry_delay=0, max_retries=999)).id
            for _round in range(40):  # clocks that are read to different parts of a second differ in some of them
                [given_back] = await letters.acquire_due()
                assert await letters.return_replay_attempt(entry, token=given_back.replay_token)
                [failed] = await letters.acquire_due()
                assert await letters.complete_replay(entry, False, token=failed.replay_token)

        play(store_venue, scene)

    def test_failed_operation_is_due_later_and_at_last_requires_review(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, ground: Ground) -> None:
            record = await letters.create("d", "t", retry_delay=60, max_retries=2)
            await letters.acquire_due()
            await letters.complete_replay(record.id, False)
            waits = (await letters.get_by_id(record.id)).next_retry_at - (await letters.get_by_id(record.id)).updated_at
            assert timedelta(seconds=60) <= waits <= timedelta(seconds=75)
            assert await letters.acquire_due() == []
            await ground.advance(80)
            [again] = await letters.acquire_due()
            await letters.complete_replay(again.id, False)
            read = await letters.get_by_id(record.id)
            assert (read.status, read.next_retry_at) == ("requires_review", None)
            forced = await letters.try_acquire_for_replay(record.id, 0, force=True)
            assert forced.next_retry_at is not None
            await letters.complete_replay(record.id, False)
            assert (await letters.get_by_id(record.id)).next_retry_at is not None

        play(store_venue, scene)

    def test_due_operation_whose_worker_died_at_the_cap_requires_review(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, ground: Ground) -> None:
            poison = await letters.create("d", "t", retry_delay=60, max_retries=1)
            await letters.acquire_due(lease=10)
            await ground.advance(11)
            good = await letters.create("d", "t", retry_delay=60)
            await ground.advance(1)
            assert [each.id for each in await letters.acquire_due(1)] == [good.id]
            assert (await letters.get_by_id(poison.id)).status == "requires_review"

        play(store_venue, scene)


__all__ = ["DeadLetterReplays"]
