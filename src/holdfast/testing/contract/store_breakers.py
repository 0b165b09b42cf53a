"""What every repository of circuit breakers must do, in any colour: reading, counting, tripping, closing."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import InvalidDuration, InvalidKey, MisuseError, TooLong
from holdfast.stores import OpenTime
from holdfast.testing.contract.store_breakers_stage import STUCK, half_open, play, slot

if TYPE_CHECKING:
    from holdfast.testing.contract.store_ground import Ground, StoreVenue


class BreakerStates:
    """Reading, counting, writing, removing."""

    def test_new_breaker_is_closed_with_nothing_counted(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, _: Ground) -> None:
            made = await breakers.get_or_create("api")
            assert (made.service_name, made.state, made.failure_count, made.success_count) == ("api", "closed", 0, 0)
            assert made.is_closed
            assert not made.is_open
            assert not made.is_half_open
            assert (made.opened_at, made.last_failure_at, made.manually_controlled) == (None, None, False)
            assert (made.controlled_by_id, made.control_reason, made.metadata) == (None, "", {})
            assert made.created_at.utcoffset() == timedelta(0)
            assert await breakers.get_or_create("api") == made == await breakers.get_by_service_name("api")

        play(store_venue, scene)

    def test_breaker_that_is_not_there_is_none_and_reading_makes_none(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, _: Ground) -> None:
            assert await breakers.get_by_service_name("api") is None
            assert await breakers.get_history("api") == []
            assert await breakers.get_all_states() == []

        play(store_venue, scene)

    def test_call_that_needs_a_breaker_makes_none(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, _: Ground) -> None:
            assert await breakers.update_state("api", "open") is False
            assert await breakers.clear_manual_control("api") is False
            assert await breakers.reset("api") is False
            assert await breakers.atomic_reset("api", "why", 7) == (False, "", "")
            assert await breakers.delete_state("api") is False
            assert await breakers.reset_half_open_count("api") is None
            assert await breakers.release_half_open_slot("api", token="t") is False  # noqa: S106
            assert await breakers.record_failure_with_open_check("api") is None
            assert await slot(breakers) == (False, "closed", "closed")
            assert await breakers.get_all_states() == []

        play(store_venue, scene)

    def test_failures_and_successes_are_counted_without_a_change_of_state(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, ground: Ground) -> None:
            assert (await breakers.record_failure("api")).failure_count == 1
            await ground.advance(10)
            last = await breakers.record_failure("api")
            assert (last.failure_count, last.success_count, last.state) == (2, 0, "closed")
            assert last.last_failure_at >= last.created_at + timedelta(seconds=10)
            assert (await breakers.record_success("api")).success_count == 1
            found = await breakers.get_by_service_name("api")
            assert (found.failure_count, found.success_count) == (2, 1)

        play(store_venue, scene)

    def test_update_writes_what_is_given_and_keeps_the_rest(self, store_venue: StoreVenue) -> None:
        then = datetime(2030, 1, 2, 3, 4, 5, 678901, UTC)

        async def scene(breakers: Any, _: Ground) -> None:
            await breakers.atomic_force_close("api", "hands off", 0)
            await breakers.record_failure("api")
            assert await breakers.update_state("api", "open", success_count=0, opened_at=then) is True
            found = await breakers.get_by_service_name("api")
            assert (found.state, found.failure_count, found.success_count, found.opened_at) == ("open", 1, 0, then)
            assert (found.manually_controlled, found.control_reason, found.controlled_by_id) == (True, "hands off", 0)
            await breakers.update_state("api", "open", failure_count=0, last_failure_at=then)
            found = await breakers.get_by_service_name("api")
            assert (found.failure_count, found.last_failure_at, found.opened_at) == (0, then, then)

        play(store_venue, scene)

    def test_update_forgets_trials_if_asked_even_beside_a_count(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, _: Ground) -> None:
            await half_open(breakers)
            await breakers.update_state("api", "half_open", half_open_request_count=2)
            found = await breakers.get_by_service_name("api")
            assert found.half_open_request_count == 2
            assert found.half_open_window_started_at is not None
            await breakers.update_state("api", "closed", half_open_request_count=5, reset_half_open_count=True)
            found = await breakers.get_by_service_name("api")
            assert (found.half_open_request_count, found.half_open_window_started_at, found.slots) == (0, None, ())

        play(store_venue, scene)

    def test_reset_closes_and_forgets_everything_but_the_breaker(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, _: Ground) -> None:
            await breakers.record_failure("api")
            await breakers.record_success("api")
            await breakers.atomic_force_open("api", "broken", 7)
            assert await breakers.reset("api") is True
            found = await breakers.get_by_service_name("api")
            assert (found.state, found.failure_count, found.success_count) == ("closed", 0, 0)
            assert (found.opened_at, found.last_failure_at, found.manual_override_expires_at) == (None, None, None)
            assert (found.manually_controlled, found.controlled_by_id, found.control_reason) == (False, None, "")

        play(store_venue, scene)

    def test_breaker_that_is_deleted_is_gone_with_its_history(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, _: Ground) -> None:
            await breakers.trip_to_open("api")
            assert await breakers.delete_state("api") is True
            assert await breakers.delete_state("api") is False
            assert await breakers.get_by_service_name("api") is None
            assert await breakers.get_open_states() == []
            await breakers.trip_to_open("api")
            assert [each.event for each in await breakers.get_history("api")] == ["opened"]

        play(store_venue, scene)

    def test_breaker_that_is_deleted_and_made_anew_at_once_has_no_history(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, _: Ground) -> None:
            await breakers.trip_to_open("api")
            await breakers.atomic_reset("api")
            await asyncio.gather(breakers.delete_state("api"), breakers.record_failure("api"))
            assert await breakers.get_history("api") == []
            assert (await breakers.trip_to_open("api")).did_open
            assert [each.event for each in await breakers.get_history("api")] == ["opened"]

        play(store_venue, scene)

    def test_all_states_are_listed_by_name(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, _: Ground) -> None:
            for name in ("c", "a", "B", "a:eu"):
                await breakers.get_or_create(name)
            assert [each.service_name for each in await breakers.get_all_states()] == ["B", "a", "a:eu", "c"]

        play(store_venue, scene)

    def test_open_states_come_oldest_first_unknown_ages_before_and_not_more_than_wanted(
        self, store_venue: StoreVenue
    ) -> None:
        async def scene(breakers: Any, ground: Ground) -> None:
            for name in ("late", "early", "unknown", "closed"):
                await breakers.get_or_create(name)
            await breakers.update_state("unknown", "open")
            await breakers.trip_to_open("early")
            await ground.advance(5)
            await breakers.trip_to_open("late")
            await breakers.trip_to_open("tried")
            await breakers.try_acquire_half_open_slot("tried", 1, STUCK, token="t")  # noqa: S106
            assert [each.service_name for each in await breakers.get_open_states()] == ["unknown", "early", "late"]
            assert [each.service_name for each in await breakers.get_open_states(limit=2)] == ["unknown", "early"]
            assert await breakers.get_open_states(limit=0) == []

        play(store_venue, scene)

    def test_times_are_compared_whatever_zone_they_were_told_in(self, store_venue: StoreVenue) -> None:
        noon = datetime(2030, 1, 1, 12, tzinfo=UTC)

        async def scene(breakers: Any, _: Ground) -> None:
            for name, hours_ago, zone in (("late", 0, 0), ("early", 2, 9), ("between", 1, -9)):
                await breakers.get_or_create(name)
                told = (noon - timedelta(hours=hours_ago)).astimezone(timezone(timedelta(hours=zone)))
                await breakers.update_state(name, "open", opened_at=told)
            found = await breakers.get_open_states()
            assert [each.service_name for each in found] == ["early", "between", "late"]
            assert {each.opened_at.utcoffset() for each in found} == {timedelta(0)}
            with pytest.raises(MisuseError, match="years 1 to 9999"):
                told = datetime.max.replace(tzinfo=timezone(timedelta(hours=-9)))
                await breakers.set_manual_control("late", "open", expires_at=told)

        play(store_venue, scene)

    def test_what_is_returned_is_nobody_elses(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, _: Ground) -> None:
            (await breakers.get_or_create("api")).metadata["mine"] = 1
            (await breakers.record_failure("api")).metadata["mine"] = 1
            (await breakers.get_all_states())[0].metadata["mine"] = 1
            assert (await breakers.get_by_service_name("api")).metadata == {}

        play(store_venue, scene)

    def test_name_or_state_or_time_that_cannot_be_kept_is_refused(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, _: Ground) -> None:
            await breakers.get_or_create("x" * 512)
            with pytest.raises(TooLong):
                await breakers.record_failure("x" * 513)
            with pytest.raises(ValueError, match="empty"):
                await breakers.get_or_create("")
            with pytest.raises(MisuseError, match="closed, open, half_open"):
                await breakers.update_state("x" * 512, "ajar")
            with pytest.raises(MisuseError, match="time zone"):
                await breakers.set_manual_control("api", "open", expires_at=datetime(2030, 1, 1))  # noqa: DTZ001
            assert await breakers.get_by_service_name("api") is None

        play(store_venue, scene)

    @pytest.mark.parametrize("name", ["", "a\0", "half \ud800", "x" * 513, 5, None], ids=repr)
    def test_name_that_no_database_keeps_is_refused_by_every_call(self, store_venue: StoreVenue, name: Any) -> None:
        async def scene(breakers: Any, _: Ground) -> None:
            for call in (
                breakers.get_or_create,
                breakers.get_by_service_name,
                breakers.get_history,
                breakers.record_failure,
                breakers.atomic_force_open,
            ):
                with pytest.raises((InvalidKey, TooLong, TypeError), match="name of a breaker"):
                    await call(name)
            assert await breakers.get_all_states() == []

        play(store_venue, scene)

    def test_what_people_say_is_kept_also_with_half_a_character(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, _: Ground) -> None:
            await breakers.atomic_force_open("api", "half \ud800, zero \0, ü", controlled_by="\udfff")
            record = await breakers.get_by_service_name("api")
            assert record.control_reason == "half \\ud800, zero \0, ü"
            assert (await breakers.get_history("api"))[0].reason == record.control_reason
            await breakers.atomic_reset("api", "\ud800")
            await breakers.trip_to_open("api", error="\ud800")
            assert len(await breakers.get_history("api")) == 3

        play(store_venue, scene)

    @pytest.mark.parametrize("minutes", [float("nan"), float("inf"), 1e12])
    def test_time_of_a_pin_that_no_clock_counts_is_refused(self, store_venue: StoreVenue, minutes: float) -> None:
        async def scene(breakers: Any, _: Ground) -> None:
            for force in (breakers.atomic_force_open, breakers.atomic_force_close):
                with pytest.raises(InvalidDuration, match="ttl_minutes"):
                    await force("api", ttl_minutes=minutes)
            assert await breakers.get_by_service_name("api") is None

        play(store_venue, scene)

    def test_names_differ_by_case_and_by_trailing_blanks(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, _: Ground) -> None:
            for name in ("api", "API", "api ", "äpi"):
                await breakers.record_failure(name)
            assert {each.failure_count for each in await breakers.get_all_states()} == {1}
            assert len(await breakers.get_all_states()) == 4

        play(store_venue, scene)


class BreakerTransitions:
    """Tripping, trying, closing."""

    def test_trip_opens_a_closed_breaker_once(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, _: Ground) -> None:
            first = await breakers.trip_to_open("api", 5, open_time=OpenTime(base=timedelta(seconds=30)))
            assert (first.did_open, first.state.state, first.state.failure_count) == (True, "open", 5)
            assert first.state.retry_at == first.state.opened_at + timedelta(seconds=30)
            again = await breakers.trip_to_open("api", 9)
            assert (again.did_open, again.state.failure_count) == (False, 5)
            await slot(breakers)
            assert (await breakers.trip_to_open("api", 9)).did_open is False

        play(store_venue, scene)

    def test_open_time_grows_with_each_opening_in_a_row_up_to_its_cap(self, store_venue: StoreVenue) -> None:
        times = OpenTime(base=timedelta(seconds=10), backoff=3, cap=timedelta(seconds=60))

        async def scene(breakers: Any, _: Ground) -> None:
            state = (await breakers.trip_to_open("api", open_time=times)).state
            waits = [state.retry_at - state.opened_at]
            for __ in range(3):
                await slot(breakers, token="t")  # noqa: S106
                opened = await breakers.record_failure_with_open_check("api", open_time=times, token="t")  # noqa: S106
                waits.append(opened.state.retry_at - opened.state.opened_at)
            assert [each.total_seconds() for each in waits] == [10, 30, 60, 60]

        play(store_venue, scene)

    def test_quorum_needs_different_reporters_within_its_time(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, ground: Ground) -> None:
            async def report(who: str) -> bool:
                attempt = await breakers.trip_to_open("api", reporter=who, quorum=2, within=timedelta(seconds=30))
                return bool(attempt.did_open)

            assert [await report("a"), await report("a")] == [False, False]
            await ground.advance(31)
            assert [await report("b"), await report("a")] == [False, True]
            assert (await breakers.get_by_service_name("api")).reports == {}

        play(store_venue, scene)

    def test_successes_close_a_half_open_breaker_for_one_caller(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, _: Ground) -> None:
            await half_open(breakers)
            first = await breakers.record_success_with_close_check("api", 2)
            assert (first.did_close, first.state.state, first.state.success_count) == (False, "half_open", 1)
            second = await breakers.record_success_with_close_check("api", 2)
            assert (second.did_close, second.state.state) == (True, "closed")
            assert (second.state.failure_count, second.state.success_count, second.state.opened_at) == (0, 0, None)
            assert (second.state.half_open_request_count, second.state.half_open_window_started_at) == (0, None)
            third = await breakers.record_success_with_close_check("api", 2)
            assert (third.did_close, third.state.state, third.state.success_count) == (False, "closed", 1)

        play(store_venue, scene)

    def test_trial_that_fails_opens_again_for_one_caller(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, _: Ground) -> None:
            await half_open(breakers)
            await slot(breakers, token="second")  # noqa: S106
            opened = await breakers.record_failure_with_open_check("api", token="first")  # noqa: S106
            assert (opened.did_open, opened.state.state, opened.state.slots) == (True, "open", ())
            late = await breakers.record_failure_with_open_check("api", token="second")  # noqa: S106
            assert (late.did_open, late.state.state) == (False, "open")

        play(store_venue, scene)

    def test_history_tells_what_happened_newest_first(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, ground: Ground) -> None:
            await breakers.trip_to_open("api", error="TimeoutError")
            await slot(breakers)
            await breakers.record_success_with_close_check("api", 1)
            await breakers.atomic_force_open("api", "maintenance", 7, 30, controlled_by="ada")
            await ground.advance(1)
            await breakers.clear_manual_control("api")
            await breakers.atomic_reset("api", "done", 8)
            await breakers.record_failure("api")
            told = [
                (each.event, each.from_state, each.to_state, each.reason) for each in await breakers.get_history("api")
            ]
            assert told == [
                ("reset", "open", "closed", "done"),
                ("unpinned", "open", "open", ""),
                ("forced_open", "closed", "open", "maintenance"),
                ("closed", "half_open", "closed", ""),
                ("half_opened", "open", "half_open", ""),
                ("opened", "closed", "open", "TimeoutError"),
            ]
            entries = await breakers.get_history("api", 3)
            assert [each.epoch for each in entries] == [6, 5, 4]
            assert (entries[2].controlled_by_id, entries[2].controlled_by) == (7, "ada")
            assert entries[2].expires_at == entries[2].at + timedelta(minutes=30)
            assert entries[1].at >= entries[2].at + timedelta(seconds=1)
            assert await breakers.get_history("api", 0) == []

        play(store_venue, scene)


__all__ = ["BreakerStates", "BreakerTransitions"]
