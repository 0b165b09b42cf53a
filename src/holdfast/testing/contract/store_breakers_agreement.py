"""What repositories of circuit breakers are known to disagree about, case by case: here all give one answer."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from holdfast.core.breaker import Event, Outcome
from holdfast.testing.colours import Colour
from holdfast.testing.contract.store_breakers_stage import half_open, play, slot

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.model.breaker import CircuitBreakerStateData
    from holdfast.testing.contract.store_ground import Ground, StoreVenue

THEN = datetime(2030, 1, 2, 3, 4, 5, 678901, UTC)


class _Noted(Event):
    """Writes something into the metadata."""

    def on(self, record: CircuitBreakerStateData, now: datetime) -> Outcome:  # noqa: ARG002 -- an event's signature
        return Outcome(replace(record, metadata={"team": "payments"}), None)


async def _found(breakers: Any) -> Any:
    return await breakers.get_by_service_name("api")


async def _on_missing(breakers: Any) -> Any:
    answers = [
        await breakers.update_state("api", "open"),
        await breakers.clear_manual_control("api"),
        await breakers.reset("api"),
        await breakers.atomic_reset("api", "why", 7),
        await breakers.delete_state("api"),
    ]
    return [*answers, await breakers.get_all_states()]


async def _nobody_controls(breakers: Any) -> Any:
    await breakers.set_manual_control("api", "open")
    return (await _found(breakers)).controlled_by_id


async def _control_stamps_opening(breakers: Any) -> Any:
    await breakers.set_manual_control("api", "open", 7, "why", THEN)
    return (await _found(breakers)).opened_at is not None


async def _second_control_clears(breakers: Any) -> Any:
    await breakers.set_manual_control("api", "open", 7, "why", THEN)
    await breakers.set_manual_control("api", "open")
    found = await _found(breakers)
    return found.controlled_by_id, found.control_reason, found.manual_override_expires_at


async def _reset_unpins(breakers: Any) -> Any:
    await breakers.atomic_force_open("api", "why", 7)
    await breakers.reset("api")
    found = await _found(breakers)
    return found.manually_controlled, found.controlled_by_id, found.manual_override_expires_at


async def _force_open_ends_trials(breakers: Any) -> Any:
    await half_open(breakers)
    await breakers.atomic_force_open("api")
    found = await _found(breakers)
    return found.half_open_request_count, found.half_open_window_started_at


async def _close_check_on_closed(breakers: Any) -> Any:
    await breakers.get_or_create("api")
    attempt = await breakers.record_success_with_close_check("api", 2)
    return attempt.did_close, attempt.state.success_count, (await _found(breakers)).success_count


async def _checks_return_the_row(breakers: Any) -> Any:
    await half_open(breakers)
    attempt = await breakers.record_success_with_close_check("api", 9)
    closed = attempt.state == await _found(breakers)
    opened = await breakers.record_failure_with_open_check("api")
    return closed, opened.state == await _found(breakers), opened.state.opened_at is not None


async def _atomic_reset_keeps(breakers: Any) -> Any:
    await breakers.atomic_force_open("api", "why", 7)
    answer = await breakers.atomic_reset("api", "done", 8)
    found = await _found(breakers)
    return answer, found.control_reason, found.controlled_by_id, found.manually_controlled


async def _no_more_than_none(breakers: Any) -> Any:
    await breakers.trip_to_open("api")
    return len(await breakers.get_open_states(limit=0)), len(await breakers.get_open_states())


async def _last_failure_is_written(breakers: Any) -> Any:
    await breakers.get_or_create("api")
    await breakers.update_state("api", "closed", last_failure_at=THEN)
    return (await _found(breakers)).last_failure_at


async def _nothing_is_lost_together(breakers: Any) -> Any:
    await asyncio.gather(*(breakers.record_failure("api") for _ in range(24)))
    return (await _found(breakers)).failure_count


async def _made_once_together(breakers: Any) -> Any:
    made = await asyncio.gather(*(breakers.get_or_create("api") for _ in range(12)))
    return {each.version for each in made}


async def _slots_together(breakers: Any) -> Any:
    await breakers.trip_to_open("api")
    return sum(each[0] for each in await asyncio.gather(*(slot(breakers) for _ in range(12))))


async def _closed_once_together(breakers: Any) -> Any:
    await half_open(breakers)
    tried = await asyncio.gather(*(breakers.record_success_with_close_check("api", 5) for _ in range(12)))
    return sum(each.did_close for each in tried)


CASES: dict[str, tuple[Callable[[Any], Awaitable[Any]], Any]] = {
    "calls on a breaker that is not there": (_on_missing, [False, False, False, (False, "", ""), False, []]),
    "controlled by nobody": (_nobody_controls, None),
    "manual control stamps the opening": (_control_stamps_opening, True),
    "a second manual control clears the first": (_second_control_clears, (None, "", None)),
    "reset takes the pin off": (_reset_unpins, (False, None, None)),
    "force_open ends the trials": (_force_open_ends_trials, (0, None)),
    "close check on a closed breaker": (_close_check_on_closed, (False, 1, 1)),
    "checks return the row itself": (_checks_return_the_row, (True, True, True)),
    "atomic_reset keeps its reason": (_atomic_reset_keeps, ((True, "open", "closed"), "done", None, False)),
    "get_open_states(limit=0)": (_no_more_than_none, (0, 1)),
    "update_state(last_failure_at)": (_last_failure_is_written, THEN),
    "counts made together": (_nothing_is_lost_together, 24),
    "made together": (_made_once_together, {1}),
    "slots asked for together": (_slots_together, 3),
    "closed together": (_closed_once_together, 1),
}


class BreakerAgreement:
    """One answer, whatever keeps the breaker."""

    def test_every_known_disagreement_has_one_answer(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, _: Ground) -> None:
            for name, (case, expected) in CASES.items():
                assert await case(breakers) == expected, name
                await breakers.delete_state("api")

        play(store_venue, scene)

    def test_metadata_outlives_every_change(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, ground: Ground) -> None:
            store = breakers if ground.colour is Colour.ASYNC else breakers.blocking.store
            await breakers.get_or_create("api")
            await ground.on_loop(store.apply("api", _Noted()))
            await breakers.record_failure("api")
            await half_open(breakers)
            await breakers.record_success_with_close_check("api", 1)
            await breakers.atomic_force_open("api", "why", ttl_minutes=timedelta(minutes=5) / timedelta(minutes=1))
            assert (await _found(breakers)).metadata == {"team": "payments"}

        play(store_venue, scene)


__all__ = ["CASES", "BreakerAgreement"]
