"""``with breaker`` where blocks are entered and left in any order and in any context; and what listeners see."""

from __future__ import annotations

import asyncio
import contextvars
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import CircuitOpen
from holdfast.resilience import BreakerEvent, CircuitBreaker
from holdfast.testing.world import VirtualWorld

if TYPE_CHECKING:
    from collections.abc import Iterator


class Broken(Exception):
    """What a dependency raises that does not work."""


def made(world: VirtualWorld, name: str = "api", **options: Any) -> CircuitBreaker:
    return CircuitBreaker(name, world=world, open_jitter=0.0, failures=1, successes=1, probes=1, **options)


def open_for_trials(world: VirtualWorld, *breakers: CircuitBreaker) -> None:
    """Open *breakers*, and let time pass until they try again."""
    for breaker in breakers:
        with pytest.raises(Broken), breaker:
            raise Broken
    asyncio.run(world.advance(60))


def rows(breaker: CircuitBreaker, *, fails: bool = False) -> Iterator[int]:
    with breaker:
        yield 1
        if fails:
            raise Broken


@pytest.mark.parametrize("fails", [False, True])
def test_generators_that_end_in_another_order_end_their_own_trials(*, fails: bool) -> None:
    world = VirtualWorld()
    first, second = made(world, "first"), made(world, "second")
    open_for_trials(world, first, second)
    ones, others = rows(first, fails=fails), rows(second)
    assert (next(ones), next(others)) == (1, 1)
    if fails:
        with pytest.raises(Broken):
            list(ones)
    else:
        list(ones)
    assert (first.state, second.state) == ("open" if fails else "closed", "half_open")
    list(others)
    assert second.state == "closed"


@pytest.mark.parametrize("error", [None, Broken()])
def test_block_that_is_left_in_another_context_counts(error: Exception | None) -> None:
    world = VirtualWorld()
    breaker = made(world)
    contextvars.copy_context().run(breaker.__enter__)
    contextvars.copy_context().run(breaker.__exit__, None, error, None)
    assert breaker.state == ("closed" if error is None else "open")
    assert breaker.metrics.window.calls == (1 if error is None else 0)  # an open breaker begins anew


def test_trial_that_is_left_in_another_context_keeps_no_slot() -> None:
    world = VirtualWorld()
    breaker = made(world)
    open_for_trials(world, breaker)
    contextvars.copy_context().run(breaker.__enter__)
    contextvars.copy_context().run(breaker.__exit__, KeyboardInterrupt, KeyboardInterrupt(), None)
    assert breaker.state == "half_open"  # it came to nothing, and another may try
    assert breaker.call(str, 1) == "1"
    assert breaker.state == "closed"


def test_trial_that_another_context_has_ended_is_not_ended_twice() -> None:
    world = VirtualWorld()
    breaker = made(world)
    open_for_trials(world, breaker)
    entering = contextvars.copy_context()
    entering.run(breaker.__enter__)
    contextvars.copy_context().run(breaker.__exit__, KeyboardInterrupt, KeyboardInterrupt(), None)
    entering.run(breaker.__exit__, KeyboardInterrupt, KeyboardInterrupt(), None)
    with breaker, pytest.raises(CircuitOpen):  # still one trial at a time
        breaker.call(str, 1)
    assert breaker.state == "closed"


def test_listener_sees_the_breaker_refuse_from_the_moment_it_opens() -> None:
    breaker = made(VirtualWorld())
    seen: list[str] = []

    def listen(event: BreakerEvent) -> None:
        if event.kind == "opened":
            with pytest.raises(CircuitOpen):
                breaker.call(str, 1)
            seen.append(breaker.state)

    breaker.listen(listen)
    with pytest.raises(Broken), breaker:
        raise Broken
    assert seen == ["open"]
