"""What trials of a half-open circuit breaker must do, in any colour."""

from __future__ import annotations

import asyncio
import contextvars
from typing import TYPE_CHECKING, Any

from holdfast.testing.contract.store_breakers_stage import STUCK, half_open, play, slot

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.testing.contract.store_ground import Ground, StoreVenue


class BreakerSlots:
    """Trials of a half-open breaker."""

    def test_open_breaker_becomes_half_open_with_one_trial(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, _: Ground) -> None:
            await breakers.trip_to_open("api")
            await breakers.record_success("api")
            assert await slot(breakers) == (True, "open", "half_open")
            found = await breakers.get_by_service_name("api")
            assert (found.success_count, found.half_open_request_count) == (0, 1)
            assert found.half_open_window_started_at == found.updated_at

        play(store_venue, scene)

    def test_limit_holds_and_zero_allows_none(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, _: Ground) -> None:
            await half_open(breakers)
            granted = [await slot(breakers, token=f"t{number}") for number in range(3)]
            assert granted == [(True, "half_open", "half_open")] * 2 + [(False, "half_open", "half_open")]
            assert await slot(breakers, limit=0) == (False, "half_open", "half_open")
            assert (await breakers.get_by_service_name("api")).half_open_request_count == 3

        play(store_venue, scene)

    def test_outcome_gives_the_slot_to_the_next(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, _: Ground) -> None:
            await half_open(breakers, limit=1)
            assert (await slot(breakers, limit=1))[0] is False
            for __ in range(4):  # fewer slots than successes needed
                attempt = await breakers.record_success_with_close_check("api", 5, token="first")  # noqa: S106
                assert attempt.did_close is False
                assert (await slot(breakers, limit=1, token="first"))[0] is True  # noqa: S106
            closing = await breakers.record_success_with_close_check("api", 5, token="first")  # noqa: S106
            assert closing.did_close is True

        play(store_venue, scene)

    def test_slot_is_released_once_and_only_by_its_token(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, _: Ground) -> None:
            await half_open(breakers, limit=1)
            assert await breakers.release_half_open_slot("api", token="other") is False  # noqa: S106
            assert await breakers.release_half_open_slot("api", token="first") is True  # noqa: S106
            assert await breakers.release_half_open_slot("api", token="first") is False  # noqa: S106
            assert (await breakers.get_by_service_name("api")).half_open_request_count == 0

        play(store_venue, scene)

    def test_task_ends_the_slots_it_acquired_without_naming_them(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, _: Ground) -> None:
            await half_open(breakers)
            await slot(breakers)
            await slot(breakers)
            await breakers.record_success("api")
            assert (await breakers.get_by_service_name("api")).half_open_request_count == 2
            await breakers.release_half_open_slot("api")
            found = await breakers.get_by_service_name("api")
            assert (found.half_open_request_count, [each.token for each in found.slots]) == (1, ["first"])
            assert await breakers.release_half_open_slot("api") is False

        # A context of its own: what other tests hold in this one does not count.
        contextvars.Context().run(play, store_venue, scene)

    def test_late_outcome_of_an_earlier_window_changes_nothing(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, _: Ground) -> None:
            await half_open(breakers)
            await breakers.record_failure_with_open_check("api", token="first")  # noqa: S106
            await slot(breakers, token="second")  # noqa: S106
            for call in (breakers.record_success, breakers.record_failure, breakers.record_failure_with_open_check):
                await call("api", token="first")  # noqa: S106
            late = await breakers.record_success_with_close_check("api", 1, token="first")  # noqa: S106
            assert late.did_close is False
            found = await breakers.get_by_service_name("api")
            assert (found.state, found.success_count, found.half_open_request_count) == ("half_open", 0, 1)

        play(store_venue, scene)

    def test_trial_that_was_never_ended_keeps_no_later_outcome_from_counting(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, _: Ground) -> None:
            ways_out: tuple[Callable[[], Any], ...] = (
                lambda: breakers.reset("api"),
                lambda: breakers.atomic_reset("api"),
                lambda: breakers.update_state("api", "open", reset_half_open_count=True),
                lambda: breakers.update_state("api", "half_open", reset_half_open_count=True),
                lambda: breakers.reset_half_open_count("api"),
                lambda: breakers.delete_state("api"),
            )
            for way_out in ways_out:
                await breakers.trip_to_open("api")
                assert (await slot(breakers))[0]
                assert (await slot(breakers))[0]
                await way_out()
                await breakers.get_or_create("api")
                before = (await breakers.get_by_service_name("api")).failure_count
                assert (await breakers.record_failure("api")).failure_count == before + 1
                assert (await breakers.record_success("api")).success_count == 1
                closing = await breakers.record_success_with_close_check("api", 9)
                assert (closing.did_close, closing.state.success_count) == (False, 2)
                await breakers.delete_state("api")

        contextvars.Context().run(play, store_venue, scene)

    def test_trial_that_others_have_closed_meanwhile_counts_as_any_call(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, _: Ground) -> None:
            await half_open(breakers)
            await slot(breakers)
            assert (await breakers.record_success_with_close_check("api", 1, token="first")).did_close  # noqa: S106
            assert (await breakers.record_failure("api")).failure_count == 1

        contextvars.Context().run(play, store_venue, scene)

    def test_slot_that_several_tasks_inherit_is_ended_by_one_and_the_others_count(
        self, store_venue: StoreVenue
    ) -> None:
        async def scene(breakers: Any, _: Ground) -> None:
            await half_open(breakers)
            await slot(breakers)
            before = (await breakers.get_by_service_name("api")).failure_count
            await asyncio.gather(*(asyncio.create_task(breakers.record_failure("api")) for __ in range(5)))
            after = await breakers.record_failure("api")
            assert after.failure_count == before + 6
            assert [each.token for each in after.slots] == ["first"]

        contextvars.Context().run(play, store_venue, scene)

    def test_unnamed_outcome_of_an_earlier_window_changes_nothing_in_a_later_one(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, _: Ground) -> None:
            await half_open(breakers)
            await slot(breakers)
            await breakers.record_failure_with_open_check("api", token="first")  # noqa: S106
            assert await slot(breakers, token="other") == (True, "open", "half_open")  # noqa: S106
            late = await breakers.record_success_with_close_check("api", 1)
            assert (late.did_close, late.state.success_count, late.state.half_open_request_count) == (False, 0, 1)

        contextvars.Context().run(play, store_venue, scene)

    def test_task_holds_no_more_trials_than_there_can_be(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, _: Ground) -> None:
            for __ in range(5):
                await breakers.delete_state("api")
                await breakers.trip_to_open("api")
                assert (await slot(breakers, limit=2))[0]
                assert (await slot(breakers, limit=2))[0]
            released = [await breakers.release_half_open_slot("api") for __ in range(3)]
            assert released == [True, True, False]

        contextvars.Context().run(play, store_venue, scene)

    def test_window_is_stuck_only_after_its_time_and_then_begins_anew(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, ground: Ground) -> None:
            await half_open(breakers, limit=2)
            await slot(breakers, limit=2, token="second")  # noqa: S106
            await breakers.record_success("api")
            await ground.advance(STUCK - 1500)
            assert await slot(breakers, limit=2) == (False, "half_open", "half_open")
            await ground.advance(1501)
            assert await slot(breakers, limit=2, token="third") == (True, "half_open", "half_open")  # noqa: S106
            found = await breakers.get_by_service_name("api")
            assert (found.half_open_request_count, found.success_count) == (1, 0)
            assert found.half_open_window_started_at == found.updated_at
            assert [each.token for each in found.slots] == ["third"]

        play(store_venue, scene)

    def test_slots_of_the_dead_are_reclaimed_and_those_of_the_living_stay(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, ground: Ground) -> None:
            await half_open(breakers, limit=2)
            await breakers.record_success("api")
            await ground.advance(STUCK - 2000)
            assert (await slot(breakers, limit=2, token="living"))[0] is True  # noqa: S106
            await ground.advance(2001)
            assert (await slot(breakers, limit=2, token="new"))[0] is True  # noqa: S106
            assert (await slot(breakers, limit=2))[0] is False
            found = await breakers.get_by_service_name("api")
            assert [each.token for each in found.slots] == ["living", "new"]
            assert (found.half_open_request_count, found.success_count) == (2, 1)

        play(store_venue, scene)

    def test_window_that_begins_later_than_now_is_stuck_if_that_is_far_ahead(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, ground: Ground) -> None:
            await half_open(breakers, limit=1)
            await ground.set_back(STUCK / 2)
            assert await slot(breakers, limit=1) == (False, "half_open", "half_open")
            await ground.set_back(STUCK)
            assert await slot(breakers, limit=1) == (True, "half_open", "half_open")

        play(store_venue, scene)

    def test_full_window_of_unknown_age_is_stuck(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, _: Ground) -> None:
            await breakers.get_or_create("api")
            await breakers.update_state("api", "half_open", half_open_request_count=3)
            assert await slot(breakers) == (True, "half_open", "half_open")
            assert (await breakers.get_by_service_name("api")).half_open_request_count == 1

        play(store_venue, scene)

    def test_window_of_unknown_age_gets_one_with_its_next_slot(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, _: Ground) -> None:
            await breakers.get_or_create("api")
            await breakers.update_state("api", "half_open", half_open_request_count=1)
            await slot(breakers)
            found = await breakers.get_by_service_name("api")
            assert (found.half_open_request_count, found.half_open_window_started_at) == (2, found.updated_at)

        play(store_venue, scene)

    def test_reset_of_the_count_leaves_the_state(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, _: Ground) -> None:
            await half_open(breakers)
            assert await breakers.reset_half_open_count("api") is None
            found = await breakers.get_by_service_name("api")
            assert (found.state, found.half_open_request_count, found.half_open_window_started_at) == (
                "half_open",
                0,
                None,
            )

        play(store_venue, scene)

    def test_slot_of_another_opening_than_the_one_that_was_waited_for_is_refused(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, _: Ground) -> None:
            seen = (await breakers.trip_to_open("api")).state.epoch
            await slot(breakers, token="t", epoch=seen)  # noqa: S106
            await breakers.record_failure_with_open_check("api", token="t")  # noqa: S106
            assert await slot(breakers, epoch=seen) == (False, "open", "open")

        play(store_venue, scene)


__all__ = ["BreakerSlots"]
