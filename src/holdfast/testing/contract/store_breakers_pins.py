"""What an operator's word about a circuit breaker must do, in any colour."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.testing.contract.store_breakers_stage import half_open, play, slot

if TYPE_CHECKING:
    from holdfast.testing.contract.store_ground import Ground, StoreVenue


class BreakerPins:
    """An operator's word."""

    def test_force_open_pins_for_ninety_minutes_and_keeps_the_counts(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, _: Ground) -> None:
            await breakers.record_failure("api")
            await breakers.record_success("api")
            assert await breakers.atomic_force_open("api", "broken", 7) == (True, "closed", "open")
            found = await breakers.get_by_service_name("api")
            assert (found.state, found.failure_count, found.success_count) == ("open", 1, 1)
            assert (found.manually_controlled, found.controlled_by_id, found.control_reason) == (True, 7, "broken")
            assert found.manual_override_expires_at == found.opened_at + timedelta(minutes=90)
            assert await breakers.atomic_force_open("api", ttl_minutes=1) == (True, "open", "open")

        play(store_venue, scene)

    @pytest.mark.parametrize("ttl", [None, 0, -5])
    def test_force_open_without_a_time_holds_for_ever(self, store_venue: StoreVenue, ttl: int | None) -> None:
        async def scene(breakers: Any, ground: Ground) -> None:
            assert await breakers.atomic_force_open("api", ttl_minutes=ttl) == (True, "closed", "open")
            await ground.advance(10 * 365 * 86400)
            assert await slot(breakers) == (False, "open", "open")
            assert (await breakers.get_by_service_name("api")).manual_override_expires_at is None

        play(store_venue, scene)

    def test_force_open_ends_the_trials(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, _: Ground) -> None:
            await half_open(breakers)
            assert await breakers.atomic_force_open("api") == (True, "half_open", "open")
            found = await breakers.get_by_service_name("api")
            assert (found.half_open_request_count, found.half_open_window_started_at) == (0, None)

        play(store_venue, scene)

    def test_force_close_forgets_the_counts_and_pins_for_ever(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, _: Ground) -> None:
            await breakers.trip_to_open("api", 5)
            assert await breakers.atomic_force_close("api", "it works", 7) == (True, "open", "closed")
            found = await breakers.get_by_service_name("api")
            assert (found.failure_count, found.success_count, found.opened_at) == (0, 0, None)
            assert (found.manually_controlled, found.manual_override_expires_at) == (True, None)
            assert (await breakers.trip_to_open("api", 5)).did_open is False
            assert await breakers.atomic_force_close("new") == (True, "closed", "closed")

        play(store_venue, scene)

    def test_pin_holds_until_the_moment_it_expires(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, ground: Ground) -> None:
            await breakers.atomic_force_open("api", ttl_minutes=10)
            await ground.advance(590)
            assert await slot(breakers) == (False, "open", "open")
            found = await breakers.get_by_service_name("api")
            assert found.retry_at == found.manual_override_expires_at
            assert found.is_pin_active(found.retry_at - timedelta(microseconds=1))
            assert not found.is_pin_active(found.retry_at)
            await ground.advance(11)
            assert await slot(breakers) == (True, "open", "half_open")
            found = await breakers.get_by_service_name("api")
            assert (found.manually_controlled, found.manual_override_expires_at) == (False, None)

        play(store_venue, scene)

    def test_pin_holds_for_its_time_though_the_clock_was_set_back(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, ground: Ground) -> None:
            made = await breakers.get_or_create("api")
            await ground.set_back(3600)
            await breakers.atomic_force_open("api", ttl_minutes=30)
            record = await breakers.get_by_service_name("api")
            assert record.manual_override_expires_at - record.updated_at == timedelta(minutes=30)
            assert record.manual_override_expires_at < made.created_at

        play(store_venue, scene)

    def test_pin_stops_trips_trials_and_closing(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, _: Ground) -> None:
            await half_open(breakers)
            await breakers.set_manual_control("api", "half_open", 1, "look at it")
            assert (await breakers.record_success_with_close_check("api", 1)).did_close is False
            assert (await breakers.record_failure_with_open_check("api")).did_open is False
            assert await slot(breakers) == (False, "half_open", "half_open")
            await breakers.set_manual_control("api", "closed")
            assert (await breakers.trip_to_open("api")).did_open is False
            assert (await breakers.get_by_service_name("api")).state == "closed"

        play(store_venue, scene)

    def test_expired_pin_of_a_closed_breaker_trips_again(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, ground: Ground) -> None:
            await breakers.atomic_force_close("api", "no alarms", ttl_minutes=1)
            await ground.advance(61)
            opened = await breakers.trip_to_open("api")
            assert (opened.did_open, opened.state.manually_controlled) == (True, False)
            assert opened.state.control_reason == "no alarms"

        play(store_venue, scene)

    def test_set_manual_control_says_all_of_it_anew(self, store_venue: StoreVenue) -> None:
        then = datetime(2040, 1, 1, tzinfo=UTC)

        async def scene(breakers: Any, _: Ground) -> None:
            assert await breakers.set_manual_control("api", "open", 7, "first", then, controlled_by="ada") is True
            first = await breakers.get_by_service_name("api")
            assert (first.state, first.controlled_by_id, first.controlled_by) == ("open", 7, "ada")
            assert (first.control_reason, first.manual_override_expires_at) == ("first", then)
            assert first.opened_at is not None
            await breakers.set_manual_control("api", "open")
            second = await breakers.get_by_service_name("api")
            assert (second.manually_controlled, second.controlled_by_id, second.controlled_by) == (True, None, "")
            assert (second.control_reason, second.manual_override_expires_at) == ("", None)

        play(store_venue, scene)

    def test_clear_takes_the_pin_off_and_leaves_the_state(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, _: Ground) -> None:
            await breakers.record_failure("api")
            await breakers.atomic_force_open("api", "why", 7)
            assert await breakers.clear_manual_control("api", preserve_reason=True) is True
            found = await breakers.get_by_service_name("api")
            assert (found.state, found.failure_count, found.control_reason) == ("open", 1, "why")
            assert (found.manually_controlled, found.controlled_by_id) == (False, None)
            await breakers.clear_manual_control("api")
            assert (await breakers.get_by_service_name("api")).control_reason == ""
            assert await slot(breakers) == (True, "open", "half_open")

        play(store_venue, scene)

    def test_atomic_reset_keeps_its_reason_and_nothing_else(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, _: Ground) -> None:
            await breakers.atomic_force_open("api", "why", 7)
            assert await breakers.atomic_reset("api", "mended", 8) == (True, "open", "closed")
            found = await breakers.get_by_service_name("api")
            assert (found.manually_controlled, found.controlled_by_id, found.control_reason) == (False, None, "mended")
            assert (found.failure_count, found.opened_at, found.manual_override_expires_at) == (0, None, None)

        play(store_venue, scene)


__all__ = ["BreakerPins"]
