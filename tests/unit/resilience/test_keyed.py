"""Breakers by key: how many are kept, and what becomes of the others."""

from __future__ import annotations

from enum import Enum
from typing import Any

import pytest

from holdfast.errors import CircuitOpen
from holdfast.resilience import CircuitBreaker, KeyedBreakers
from holdfast.stores import InMemoryCircuitBreakerStateRepository
from holdfast.stores.breakers.memory import AsyncInMemoryCircuitBreakerStateRepository


def broken() -> None:
    raise LookupError("broken")


def outcomes(breaker: CircuitBreaker, calls: int) -> list[str]:
    made = []
    for _ in range(calls):
        with pytest.raises((LookupError, CircuitOpen)) as raised:
            breaker.call(broken)
        made.append(raised.type.__name__)
    return made


def test_breaker_that_somebody_holds_still_opens_when_others_have_taken_its_place() -> None:
    hosts = KeyedBreakers("host", most=2, failures=3)
    held = hosts["a"]
    guarded = hosts["a"](broken)
    hosts["b"], hosts["c"]
    assert "a" not in hosts
    for _ in range(3):
        with pytest.raises(LookupError):
            guarded()
    assert held.state == "open"
    with pytest.raises(CircuitOpen):
        guarded()


def test_breaker_that_somebody_holds_is_the_breaker_of_its_key() -> None:
    hosts = KeyedBreakers("host", most=2, failures=3)
    held = hosts["a"]
    hosts["b"], hosts["c"]
    assert hosts["a"] is held
    assert len(hosts) == 2


def test_closed_ones_go_before_open_ones() -> None:
    hosts = KeyedBreakers("host", most=2, failures=1)
    outcomes(hosts["a"], 1)
    hosts["b"], hosts["c"]
    assert ("a" in hosts, "b" in hosts, hosts["a"].state) == (True, False, "open")


def test_key_counts_as_its_text() -> None:
    tenants = KeyedBreakers("tenant", failures=2)
    by_number: Any = tenants
    assert by_number[5] is tenants["5"]
    assert by_number[5].name == "tenant:5"
    assert 5 in by_number
    assert None not in by_number
    with pytest.raises(TypeError, match="not None"):
        by_number[None]
    assert len(tenants) == 1


@pytest.mark.parametrize("closed", [0, ""], ids=repr)
def test_closed_one_goes_before_open_ones_whatever_its_key(closed: Any) -> None:
    hosts: Any = KeyedBreakers("host", most=2, failures=1)
    assert outcomes(hosts["down"], 1) == ["LookupError"]
    hosts[closed]
    hosts["new"]
    assert "down" in hosts


def test_breaker_that_nobody_holds_is_watched_for_no_more() -> None:
    class Counted(AsyncInMemoryCircuitBreakerStateRepository):
        def watching(self) -> int:
            return sum(map(len, self._watchers.values()))

    repository = Counted()
    hosts = KeyedBreakers("host", most=2, repository=repository)
    for key in range(20):
        assert hosts[str(key)].call(str, key) == str(key)
    assert repository.watching() == len(hosts) == 2


def test_operators_word_reaches_a_breaker_whose_place_was_taken() -> None:
    repository = InMemoryCircuitBreakerStateRepository()
    hosts = KeyedBreakers("host", most=1, repository=repository)
    held = hosts["a"]
    hosts["b"]
    repository.atomic_force_open("host:a", "maintenance")
    assert outcomes(held, 2) == ["CircuitOpen"] * 2


class Tenant(str, Enum):  # noqa: UP042 -- a text that is written otherwise than it reads
    FIRST = "t-1"


def test_key_that_is_a_member_of_an_enum_is_its_text() -> None:
    tenants = KeyedBreakers("tenant")
    assert tenants[Tenant.FIRST] is tenants["t-1"]
    assert tenants["t-1"].name == "tenant:t-1"
