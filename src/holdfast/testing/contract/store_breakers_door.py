"""What no repository of circuit breakers may let in, in any colour: it would be kept and could not be read again."""

from __future__ import annotations

from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import InvalidDuration, InvalidKey
from holdfast.stores import OpenTime
from holdfast.testing.contract.store_breakers_stage import STUCK, half_open, play

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.testing.contract.store_ground import Ground, StoreVenue

_NUMBERS: dict[str, Callable[[Any, Any], Any]] = {
    "controlled_by_id of set_manual_control": lambda breakers, value: breakers.set_manual_control("api", "open", value),
    "controlled_by_id of atomic_force_open": lambda breakers, value: breakers.atomic_force_open("api", "", value),
    "controlled_by_id of atomic_force_close": lambda breakers, value: breakers.atomic_force_close("api", "", value),
    "controlled_by_id of atomic_reset": lambda breakers, value: breakers.atomic_reset("api", "", value),
    "failure_count of update_state": lambda breakers, value: breakers.update_state("api", "open", value),
    "success_count of update_state": lambda breakers, value: breakers.update_state("api", "open", success_count=value),
    "half_open_request_count of update_state": lambda breakers, value: breakers.update_state(
        "api", "open", half_open_request_count=value
    ),
    "failure_count of trip_to_open": lambda breakers, value: breakers.trip_to_open("api", value),
    "quorum of trip_to_open": lambda breakers, value: breakers.trip_to_open("api", quorum=value),
    "success_threshold of record_success_with_close_check": lambda breakers, value: (
        breakers.record_success_with_close_check("api", value)
    ),
    "limit of try_acquire_half_open_slot": lambda breakers, value: breakers.try_acquire_half_open_slot(
        "api", value, STUCK
    ),
    "limit of get_open_states": lambda breakers, value: breakers.get_open_states(value),
    "limit of get_history": lambda breakers, value: breakers.get_history("api", value),
}

_TEXTS: dict[str, Callable[[Any, Any], Any]] = {
    "reason": lambda breakers, value: breakers.atomic_force_open("api", value),
    "controlled_by": lambda breakers, value: breakers.set_manual_control("api", "open", controlled_by=value),
    "error": lambda breakers, value: breakers.trip_to_open("api", error=value),
    "reporter": lambda breakers, value: breakers.trip_to_open("api", reporter=value, quorum=2),
}

_TOKENS: tuple[Callable[[Any, Any], Any], ...] = (
    lambda breakers, token: breakers.try_acquire_half_open_slot("api", 3, STUCK, token=token),
    lambda breakers, token: breakers.release_half_open_slot("api", token=token),
    lambda breakers, token: breakers.record_failure("api", token=token),
    lambda breakers, token: breakers.record_success("api", token=token),
    lambda breakers, token: breakers.record_success_with_close_check("api", 1, token=token),
    lambda breakers, token: breakers.record_failure_with_open_check("api", token=token),
)


class _Word(str, Enum):  # noqa: UP042 -- a text that is written otherwise than it reads
    API = "api"
    OPEN = "open"


class BreakerDoor:
    """What is let in comes out again; all else is refused by its name, and nothing is changed."""

    def test_number_that_is_none_is_refused_by_its_name(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, _: Ground) -> None:
            await half_open(breakers)
            before = await breakers.get_by_service_name("api")
            for what, call in _NUMBERS.items():
                for value in ("7f3c-uuid", 1.5, True, 2**63, -(2**64)):
                    with pytest.raises(ValueError, match=f"^{what.split()[0]} is a whole number"):
                        await call(breakers, value)
            assert await breakers.get_by_service_name("api") == before

        play(store_venue, scene)

    def test_id_of_an_operator_has_64_bits_and_may_be_below_zero(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, _: Ground) -> None:
            for number in (-(2**63), -1, 0, 2**63 - 1):
                await breakers.atomic_force_open("api", "", number)
                assert (await breakers.get_by_service_name("api")).controlled_by_id == number
                assert (await breakers.get_history("api", 1))[0].controlled_by_id == number

        play(store_venue, scene)

    def test_count_below_zero_is_refused(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, _: Ground) -> None:
            await breakers.get_or_create("api")
            for what, call in _NUMBERS.items():
                if "controlled_by_id" not in what:
                    with pytest.raises(ValueError, match=what.split()[0]):
                        await call(breakers, -1)

        play(store_venue, scene)

    def test_text_that_is_none_is_refused_by_its_name(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, _: Ground) -> None:
            for what, call in _TEXTS.items():
                for value in (None, 5, ValueError("x")):
                    with pytest.raises(TypeError, match=f"^{what} is text, not {type(value).__name__}"):
                        await call(breakers, value)
                assert await breakers.get_by_service_name("api") is None
                await call(breakers, "half \ud800, zero \0")
                assert await breakers.delete_state("api")

        play(store_venue, scene)

    def test_token_that_could_not_be_kept_is_refused(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, _: Ground) -> None:
            await half_open(breakers)
            before = await breakers.get_by_service_name("api")
            for call in _TOKENS:
                for token, error in ((5, TypeError), ("", InvalidKey), ("\ud800", InvalidKey)):
                    with pytest.raises(error, match="token of a half-open slot"):
                        await call(breakers, token)
            assert await breakers.get_by_service_name("api") == before

        play(store_venue, scene)

    def test_member_of_an_enum_is_the_text_that_it_is(self, store_venue: StoreVenue) -> None:
        async def scene(breakers: Any, _: Ground) -> None:
            assert await breakers.set_manual_control(_Word.API, _Word.OPEN, reason=_Word.API)
            record = await breakers.get_by_service_name("api")
            assert [type(each) for each in (record.service_name, record.state, record.control_reason)] == [str] * 3
            assert await breakers.get_by_service_name(_Word.API) == record
            assert await breakers.get_history(_Word.API) == await breakers.get_history("api") != []
            assert await breakers.delete_state(_Word.API)
            assert await breakers.get_history("api") == []

        play(store_venue, scene)

    def test_time_that_no_clock_counts_is_refused_by_its_name(self, store_venue: StoreVenue) -> None:
        too_long = (OpenTime(base=timedelta.max), OpenTime(cap=timedelta(-1)), OpenTime(jitter=float("inf")))

        async def scene(breakers: Any, _: Ground) -> None:
            await breakers.get_or_create("api")
            for seconds in (None, "soon", float("nan"), float("inf"), -5, 1e12):
                with pytest.raises(InvalidDuration, match="stuck_timeout_seconds"):
                    await breakers.try_acquire_half_open_slot("api", 3, seconds)
            for minutes in ("6", [1]):
                with pytest.raises(InvalidDuration, match="ttl_minutes"):
                    await breakers.atomic_force_open("api", ttl_minutes=minutes)
            for within in ("6", 6, timedelta(seconds=-1)):
                with pytest.raises(InvalidDuration, match="within"):
                    await breakers.trip_to_open("api", quorum=2, within=within)
            for open_time in too_long:
                with pytest.raises(ValueError, match="open_time"):
                    await breakers.trip_to_open("api", open_time=open_time)
            with pytest.raises(TypeError, match="opened_at is a datetime"):
                await breakers.update_state("api", "open", opened_at="2030-01-01")
            assert (await breakers.get_by_service_name("api")).state == "closed"

        play(store_venue, scene)


__all__ = ["BreakerDoor"]
