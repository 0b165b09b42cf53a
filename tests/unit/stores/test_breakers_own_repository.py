"""A repository of breakers that somebody has written by the document: what is abstract there, and the rest is there."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast.errors import ConfigurationError, MisuseError
from holdfast.resilience import CircuitBreaker
from holdfast.stores import CircuitBreakerStateData, CircuitBreakerStateRepository

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
DOCUMENTED = {
    "get_or_create", "get_by_service_name", "update_state", "record_failure", "record_success", "set_manual_control",
    "clear_manual_control", "get_all_states", "reset", "delete_state", "atomic_force_open", "atomic_force_close",
    "atomic_reset", "try_acquire_half_open_slot", "reset_half_open_count",
}  # fmt: skip


class Shelf(CircuitBreakerStateRepository):
    """What the document has as abstract; those that no test of this file calls do nothing."""

    def __init__(self, *states: CircuitBreakerStateData) -> None:
        self.kept = {state.service_name: state for state in states}

    def get_or_create(self, service_name: str) -> CircuitBreakerStateData:
        return self.kept.setdefault(service_name, CircuitBreakerStateData(service_name=service_name))

    def get_by_service_name(self, service_name: str) -> CircuitBreakerStateData | None:
        return self.kept.get(service_name)

    def update_state(self, service_name: str, state: str, *counts: Any, **more: Any) -> bool:
        names = ("failure_count", "success_count", "opened_at", "last_failure_at", "half_open_request_count")
        given = dict(zip(names, counts, strict=False)) | more
        if given.pop("reset_half_open_count", False):
            given["half_open_request_count"] = 0
        self.kept[service_name] = replace(self.kept[service_name], state=state, **given)
        return True

    def record_success(self, service_name: str) -> CircuitBreakerStateData:  # type: ignore[override]
        before = self.get_or_create(service_name)
        self.kept[service_name] = replace(before, success_count=before.success_count + 1)
        return self.kept[service_name]

    def get_all_states(self) -> list[CircuitBreakerStateData]:
        return list(self.kept.values())

    def _nothing(self, *_: Any, **__: Any) -> Any:
        return None

    record_failure = set_manual_control = clear_manual_control = reset = delete_state = reset_half_open_count = _nothing
    atomic_force_open = atomic_force_close = atomic_reset = try_acquire_half_open_slot = _nothing


def state(name: str, **fields: Any) -> CircuitBreakerStateData:
    return CircuitBreakerStateData(service_name=name, **fields)


def test_what_is_abstract_is_what_the_document_has_as_abstract() -> None:
    assert CircuitBreakerStateRepository.__abstractmethods__ == DOCUMENTED
    with pytest.raises(TypeError, match="get_all_states"):
        type("Half", (Shelf,), {"get_all_states": CircuitBreakerStateRepository.get_all_states})()


def test_open_breakers_come_from_all_of_them_the_oldest_first() -> None:
    shelf = Shelf(
        state("young", state="open", opened_at=NOON),
        state("shut"),
        state("old", state="open", opened_at=NOON - timedelta(hours=1)),
        state("unknown", state="open"),
    )
    assert [each.service_name for each in shelf.get_open_states()] == ["unknown", "old", "young"]
    assert [each.service_name for each in shelf.get_open_states(limit=2)] == ["unknown", "old"]
    assert shelf.get_open_states(0) == []
    assert shelf.get_history("old") == []
    with pytest.raises(ValueError, match="limit"):
        shelf.get_open_states(-1)


def test_successes_close_a_half_open_breaker_and_no_other() -> None:
    shelf = Shelf(state("api", state="half_open", half_open_request_count=2))
    first, second, third = (shelf.record_success_with_close_check("api", 2) for _ in range(3))
    assert (first.did_close, second.did_close, third.did_close) == (False, True, False)
    assert (second.state.state, second.state.success_count, second.state.half_open_request_count) == ("closed", 0, 0)
    assert third.state.success_count == 1
    pinned = Shelf(state("api", state="half_open", manually_controlled=True))
    assert not pinned.record_success_with_close_check("api", 1).did_close


def test_failures_open_what_they_may_open() -> None:
    shelf = Shelf(state("api", state="half_open", half_open_request_count=2), state("pinned", manually_controlled=True))
    assert shelf.record_failure_with_open_check("nobody") is None
    attempt = shelf.record_failure_with_open_check("api")
    assert attempt is not None
    assert attempt.did_open
    assert (attempt.state.state, attempt.state.half_open_request_count) == ("open", 0)
    assert attempt.state.opened_at is not None
    assert not shelf.trip_to_open("api", 5).did_open
    assert not shelf.trip_to_open("pinned", 5).did_open
    tripped = shelf.trip_to_open("new", 5)
    assert (tripped.did_open, tripped.state.state, tripped.state.failure_count) == (True, "open", 5)
    with pytest.raises(MisuseError, match="Shelf gathers no quorum"):
        shelf.trip_to_open("other", quorum=2)


def test_trial_that_came_to_nothing_gives_its_place_back() -> None:
    shelf = Shelf(state("api", state="half_open", half_open_request_count=1), state("shut"))
    assert shelf.release_half_open_slot("api")
    assert not shelf.release_half_open_slot("api")
    assert not shelf.release_half_open_slot("shut")
    assert not shelf.release_half_open_slot("nobody")


def test_breaker_refuses_a_repository_that_it_cannot_watch() -> None:
    for repository in (Shelf(), object()):
        with pytest.raises(ConfigurationError, match=r"repository of the breaker api .* a \w+ does not"):
            CircuitBreaker("api", repository=repository)  # type: ignore[arg-type]
