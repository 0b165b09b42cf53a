"""A breaker that stands alone: when it opens, what it lets through, when it closes."""

from __future__ import annotations

import asyncio
import functools
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, cast

import pytest

from holdfast.errors import CircuitOpen, ConfigurationError, InvalidKey, TooLong
from holdfast.resilience import BreakerEvent, BreakerMode, CircuitBreaker
from holdfast.stores import InMemoryCircuitBreakerStateRepository
from holdfast.testing.workers import until
from holdfast.testing.world import VirtualWorld

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator


class Broken(Exception):
    """What a dependency raises that does not work."""


def broken() -> None:
    raise Broken


def works() -> str:
    return "fine"


def pass_time(world: VirtualWorld, seconds: float) -> None:
    asyncio.run(world.advance(seconds))


def made(**options: Any) -> tuple[CircuitBreaker, VirtualWorld]:
    world = VirtualWorld()
    return CircuitBreaker("api", world=world, **{"open_jitter": 0.0, **options}), world


def fail(breaker: CircuitBreaker, times: int = 1) -> None:
    for _ in range(times):
        with pytest.raises(Broken):
            breaker.call(broken)


def opened(**options: Any) -> tuple[CircuitBreaker, VirtualWorld]:
    breaker, world = made(failures=1, **options)
    fail(breaker)
    assert breaker.state == "open"
    return breaker, world


def test_closed_breaker_lets_calls_and_errors_through() -> None:
    breaker, _ = made()
    assert breaker.call(works) == "fine"
    fail(breaker, 4)
    assert breaker.state == "closed"
    assert breaker.metrics.failures_in_a_row == 4


def test_failures_in_a_row_open_it_and_calls_are_not_made() -> None:
    breaker, _ = made(failures=3, open_for=30)
    fail(breaker, 3)
    calls: list[int] = []
    with pytest.raises(CircuitOpen, match=r"'api' is open.*30 s") as refused:
        breaker.call(calls.append, 1)
    assert (refused.value.retry_after, refused.value.state, refused.value.service_name) == (30.0, "open", "api")
    assert calls == []
    assert breaker.metrics.rejected == 1


def test_refusal_says_how_many_seconds_are_left_of_hours() -> None:
    breaker, world = opened(open_for=5400, open_cap=5400)
    pass_time(world, 8.75)
    with pytest.raises(CircuitOpen, match=r"try again in 5391 s\."):
        breaker.call(works)


def test_success_in_between_begins_the_count_anew() -> None:
    breaker, _ = made(failures=2, failure_rate=None)
    for _ in range(5):
        fail(breaker)
        breaker.call(works)
    assert breaker.state == "closed"


@pytest.mark.parametrize(("failing", "state"), [(4, "closed"), (5, "open")])
def test_rate_of_failures_opens_it_from_the_minimum_of_calls_on(failing: int, state: str) -> None:
    breaker, _ = made(failures=None, failure_rate=0.5, minimum_calls=10, window=20)
    for _ in range(10 - failing):
        breaker.call(works)
    fail(breaker, failing)
    assert breaker.state == state


def test_window_of_calls_forgets_the_oldest() -> None:
    breaker, _ = made(failures=None, failure_rate=0.5, minimum_calls=4, window=4)
    for _ in range(8):
        breaker.call(works)
    fail(breaker)
    assert breaker.metrics.window == (4, 1, 0)
    fail(breaker)
    assert breaker.state == "open"


def test_window_of_time_forgets_what_is_older() -> None:
    breaker, world = made(failures=None, failure_rate=0.5, minimum_calls=2, window_duration=10)
    breaker.call(works)
    breaker.call(works)
    breaker.call(works)
    fail(breaker)
    pass_time(world, 11)
    assert breaker.metrics.window.calls == 0
    fail(breaker)
    assert breaker.state == "closed"
    fail(breaker)
    assert breaker.state == "open"


def test_slow_calls_open_it_although_none_failed() -> None:
    world = VirtualWorld()
    options: Any = {"slow_call_rate": 0.5, "slow_call_duration": 2, "minimum_calls": 4}
    breaker = CircuitBreaker("api", world=world, **options)
    for seconds in (0, 1.9, 2):
        breaker.call(pass_time, world, seconds)
        assert breaker.state == "closed"
    breaker.call(pass_time, world, 3)
    assert breaker.state == "open"


def test_errors_that_do_not_count_are_neither_failures_nor_successes() -> None:
    breaker, _ = made(failures=2, counts=(OSError, Broken), ignores=lambda error: "mine" in str(error))
    fail(breaker)
    for error in (ValueError("not counted"), OSError("mine")):
        with pytest.raises(type(error)), breaker:
            raise error
    assert breaker.metrics.failures_in_a_row == 1
    fail(breaker)
    assert breaker.state == "open"


def test_end_of_the_task_or_the_program_never_counts() -> None:
    breaker, _ = made(failures=1, counts=BaseException)
    for error in (KeyboardInterrupt, asyncio.CancelledError, SystemExit):
        with pytest.raises(error), breaker:
            raise error
    assert breaker.state == "closed"


def test_refusal_of_a_breaker_further_in_does_not_open_the_outer_one() -> None:
    inner, _ = opened()
    outer, _ = made(failures=1)
    with pytest.raises(CircuitOpen):
        outer.call(inner.call, works)
    assert outer.state == "closed"


def test_result_can_be_a_failure() -> None:
    breaker, _ = made(failures=2, failed_result=lambda status: status >= 500)
    for status in (200, 503, 200, 503, 503):
        assert breaker.call(int, status) == status
    assert breaker.state == "open"


def test_after_its_time_trials_close_it() -> None:
    breaker, world = opened(open_for=10, successes=2)
    pass_time(world, 9.9)
    with pytest.raises(CircuitOpen):
        breaker.call(works)
    pass_time(world, 0.1)
    assert breaker.call(works) == "fine"
    assert breaker.state == "half_open"
    breaker.call(works)
    assert breaker.state == "closed"
    assert breaker.metrics.window.calls == 0


def test_trial_that_fails_opens_it_again_for_longer() -> None:
    breaker, world = opened(open_for=10, open_backoff=2, open_cap=30)
    for expected in (20.0, 30.0, 30.0):
        pass_time(world, 40)
        fail(breaker)
        with pytest.raises(CircuitOpen) as refused:
            breaker.call(works)
        assert refused.value.retry_after == expected


def test_at_most_so_many_trials_at_a_time() -> None:
    breaker, world = opened(probes=2, successes=5)
    pass_time(world, 60)
    with breaker, breaker:
        with pytest.raises(CircuitOpen) as refused:
            breaker.call(works)
        assert refused.value.state == "half_open"
    pass_time(world, 0.1)
    assert breaker.call(works) == "fine"


@pytest.mark.parametrize("error", [KeyError(), KeyboardInterrupt()])
def test_trial_that_came_to_nothing_gives_its_slot_back(error: BaseException) -> None:
    breaker, world = opened(probes=1, successes=1, ignores=KeyError)
    pass_time(world, 60)
    with pytest.raises(type(error)), breaker:
        raise error
    assert breaker.state == "half_open"
    assert breaker.call(works) == "fine"
    assert breaker.state == "closed"


class NoTruth:
    """What is neither true nor false, as an array of several numbers is."""

    def __bool__(self) -> bool:
        raise TypeError("neither true nor false")


def broken_again() -> None:
    raise Broken("again")


async def soon(function: Callable[[], Any]) -> Any:
    return function()


def unsure(_: object) -> bool:
    raise LookupError("not judged")


@pytest.mark.parametrize(
    ("function", "error", "options"),
    [
        (works, LookupError, {"failed_result": unsure}),
        (works, TypeError, {"failed_result": lambda _: NoTruth()}),
        (broken_again, LookupError, {"ignores": lambda error: "again" in str(error) and unsure(error)}),
    ],
    ids=["failed_result", "no truth", "ignores"],
)
def test_trial_that_cannot_be_judged_gives_its_slot_back(
    function: Callable[[], Any], error: type[Exception], options: dict[str, Any]
) -> None:
    breaker, world = made(failures=1, probes=1, successes=1, **options)
    fail(breaker)
    pass_time(world, 60)
    for _ in range(3):
        with pytest.raises(error):
            breaker.call(function)
        with pytest.raises(error):
            asyncio.run(breaker.call_async(soon, function))
    assert breaker.state == "half_open"
    with breaker:
        pass
    assert breaker.state == "closed"


def test_slot_of_a_trial_that_never_ends_is_given_to_another() -> None:
    breaker, world = opened(probes=2, successes=1, probe_timeout=30)
    pass_time(world, 60)
    breaker.__enter__()
    pass_time(world, 31)
    assert breaker.call(works) == "fine"
    assert breaker.state == "closed"


def test_breaker_whose_trials_all_hang_is_tried_again_when_their_time_is_over() -> None:
    breaker, world = opened(probes=2, successes=1, probe_timeout=30)
    may_end = threading.Event()
    pass_time(world, 60)
    with ThreadPoolExecutor(2) as threads:
        hanging = [threads.submit(breaker.call, may_end.wait) for _ in range(2)]
        until(lambda: cast("Any", breaker.repository).get_by_service_name("api").half_open_request_count == 2)
        pass_time(world, 30)
        with pytest.raises(CircuitOpen):
            breaker.call(works)
        pass_time(world, 1)
        assert breaker.call(works) == "fine"
        assert breaker.state == "closed"
        may_end.set()
        assert all(each.result() for each in hanging)
    assert breaker.state == "closed"


def test_decorator_keeps_the_function_and_its_colour() -> None:
    breaker, _ = made(failures=1)

    @breaker
    def add(one: int, other: int) -> int:
        """Add."""
        return one + other

    @breaker
    async def add_soon(one: int, other: int) -> int:
        return one + other

    assert (add(1, other=2), add.__name__, add.__doc__) == (3, "add", "Add.")
    assert asyncio.run(add_soon(1, 2)) == 3


class Called:
    """An object whose call is async."""

    async def __call__(self, times: int) -> str:
        return "fine" * times


def test_object_whose_call_is_async_is_awaited() -> None:
    breaker, _ = made(failures=1)

    class Breaks:
        async def __call__(self) -> None:
            raise Broken

    assert asyncio.run(breaker(Called())(2)) == "finefine"
    assert asyncio.run(breaker(functools.partial(Called(), 1))()) == "fine"
    with pytest.raises(Broken):
        asyncio.run(breaker(Breaks())())
    assert breaker.state == "open"


def rows() -> Iterator[int]:
    yield 1


async def rows_soon() -> AsyncIterator[int]:
    yield 1


class Rows:
    """An object whose call is a generator."""

    def __call__(self) -> Iterator[int]:
        yield 1


@pytest.mark.parametrize(
    "function",
    [rows, rows_soon, Rows(), functools.partial(rows), classmethod(lambda _: 1)],
    ids=["generator", "async generator", "object", "partial", "classmethod"],
)
def test_what_cannot_be_guarded_is_refused(function: Any) -> None:
    breaker, _ = made()
    with pytest.raises(ConfigurationError, match="'api'"):
        breaker(function)


@pytest.mark.parametrize("function", [dict, Called, staticmethod(works), functools.partial(works)])
def test_whatever_can_be_called_is_guarded(function: Any) -> None:
    breaker, _ = made(window=10)
    breaker(function)()
    assert breaker.metrics.window.calls == 1


def test_async_calls_count_like_sync_ones() -> None:
    breaker, world = made(failures=2, open_for=10, successes=1)

    async def fails() -> None:
        raise Broken

    async def succeeds() -> str:
        return "fine"

    async def main() -> None:
        assert await breaker.call_async(succeeds) == "fine"
        with pytest.raises(Broken):
            await breaker.call_async(fails)
        with pytest.raises(Broken):
            async with breaker:
                await fails()
        with pytest.raises(CircuitOpen):
            await breaker.call_async(succeeds)
        await world.advance(10)
        async with breaker:
            assert breaker.state == "half_open"
        assert breaker.state == "closed"

    asyncio.run(main())


def test_cancelled_trial_gives_its_slot_back() -> None:
    breaker, world = opened(probes=1, successes=1)

    async def main() -> None:
        await world.advance(60)
        begun = asyncio.Event()

        async def hang() -> None:
            begun.set()
            await asyncio.sleep(3600)

        trial = asyncio.create_task(breaker.call_async(hang))
        await begun.wait()
        assert breaker.state == "half_open"
        trial.cancel()
        await asyncio.gather(trial, return_exceptions=True)
        await breaker.call_async(asyncio.sleep, 0)
        assert breaker.state == "closed"

    asyncio.run(main())


def test_listeners_are_told_and_one_that_fails_does_no_harm() -> None:
    told: list[tuple[str, str, str]] = []

    def listen(event: BreakerEvent) -> None:
        told.append((event.kind, event.from_state, event.to_state))
        raise ValueError("a bad listener")

    breaker, world = made(failures=1, successes=1, listeners=[listen])
    fail(breaker)
    with pytest.raises(CircuitOpen):
        breaker.call(works)
    pass_time(world, 60)
    breaker.call(works)
    assert told == [
        ("failed", "closed", "closed"),
        ("opened", "closed", "open"),
        ("rejected", "open", "open"),
        ("half_opened", "open", "half_open"),
        ("closed", "half_open", "closed"),
    ]


def test_listener_may_call_the_breaker_that_refuses() -> None:
    breaker, world = opened(probes=1)
    heard: list[str] = []

    def listen(event: BreakerEvent) -> None:
        heard.append(event.kind)
        if heard == ["rejected"]:
            with pytest.raises(CircuitOpen):
                breaker.call(works)

    pass_time(world, 60)
    with breaker:
        breaker.listen(listen)
        with pytest.raises(CircuitOpen):
            breaker.call(works)
        assert heard == ["rejected", "rejected"]


def test_breaker_that_observes_refuses_nothing_and_tells_what_it_would_have_done() -> None:
    told: list[str] = []
    breaker, world = made(failures=1, successes=1, mode="observe", listeners=[lambda event: told.append(event.kind)])
    fail(breaker)
    assert breaker.state == "open"
    assert breaker.call(works) == "fine"
    pass_time(world, 60)
    assert breaker.call(works) == "fine"
    assert breaker.state == "closed"
    assert told == ["failed", "opened", "rejected", "half_opened", "closed"]


def test_breaker_that_is_disabled_counts_nothing() -> None:
    breaker, _ = made(failures=1, mode=BreakerMode.DISABLED)
    fail(breaker, 3)
    with pytest.raises(Broken), breaker:
        broken()
    assert (breaker.state, breaker.metrics.window.calls) == ("closed", 0)


def test_operators_word_holds_until_it_expires() -> None:
    repository = InMemoryCircuitBreakerStateRepository(world=(world := VirtualWorld()))
    breaker = CircuitBreaker("api", repository=repository, world=world, failures=1)
    repository.atomic_force_open("api", "maintenance", ttl_minutes=1)
    pass_time(world, 59)
    with pytest.raises(CircuitOpen, match="maintenance") as refused:
        breaker.call(works)
    assert refused.value.retry_after == pytest.approx(1)
    pass_time(world, 1)
    assert breaker.call(works) == "fine"
    assert breaker.state == "half_open"
    repository.atomic_force_close("api", "works again")
    fail(breaker, 3)
    assert breaker.state == "closed"
    repository.clear_manual_control("api")
    fail(breaker)
    assert breaker.state == "open"


def test_block_without_an_end_has_no_retry_after() -> None:
    repository = InMemoryCircuitBreakerStateRepository()
    breaker = CircuitBreaker("api", repository=repository)
    repository.atomic_force_open("api", ttl_minutes=None)
    with pytest.raises(CircuitOpen) as refused:
        breaker.call(works)
    assert refused.value.retry_after is None


def test_threads_together_lose_no_failure() -> None:
    breaker, _ = made(failures=None, failure_rate=None, window=10_000)
    window_breaker, _ = made(failures=None, failure_rate=None, window_duration=3600)

    def work() -> None:
        for _ in range(500):
            fail(breaker)
            window_breaker.call(works)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert breaker.metrics.window == (2000, 2000, 0)
    assert breaker.metrics.failures_in_a_row == 2000
    assert window_breaker.metrics.window == (2000, 0, 0)


@pytest.mark.parametrize(
    "options",
    [
        {"failures": 0},
        {"failure_rate": 0},
        {"failure_rate": 1.5},
        {"slow_call_rate": 0.5},
        {"window": 0},
        {"probes": 0},
        {"successes": 0},
        {"quorum": 0},
        {"open_for": -1},
        {"open_for": 7200},
        {"open_jitter": 2},
        {"open_backoff": 0.5},
        {"open_backoff": float("nan")},
        {"open_for": float("inf")},
        {"open_for": float("nan")},
        {"open_cap": 1e12},
        {"probe_timeout": 0},
        {"probe_timeout": -1},
        {"storage_timeout": -1},
        {"quorum_within": -1},
        {"window_duration": float("inf")},
        {"slow_call_rate": 0.5, "slow_call_duration": -1},
        {"counts": "x"},
        {"ignores": (ValueError, "x")},
        {"ignores": int},
        {"failed_result": 500},
        {"probes": "3"},
        {"probes": 1.5},
        {"successes": 1.5},
        {"quorum": 1.5},
        {"failures": 2.5},
        {"failures": True},
        {"window": 2.5},
        {"minimum_calls": "10"},
        {"failure_rate": "0.5"},
        {"failure_rate": True},
        {"open_jitter": "0.1"},
        {"open_backoff": None},
        {"mode": "sleepy"},
        {"mode": None},
        {"failuers": 3},
    ],
)
def test_option_that_makes_no_sense_is_refused_by_name(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=list(options)[-1]):
        CircuitBreaker("api", **options)


@pytest.mark.parametrize("name", ["", "a\0", "half \ud800", "x" * 513, 5], ids=repr)
def test_name_that_no_database_keeps_is_refused(name: Any) -> None:
    with pytest.raises((InvalidKey, TooLong, TypeError), match="name of a breaker"):
        CircuitBreaker(name)


def test_many_threads_get_no_more_trials_than_allowed() -> None:
    breaker, world = opened(probes=3, successes=100)
    pass_time(world, 60)
    at_once = most = 0
    lock, gate = threading.Lock(), threading.Event()

    def trial() -> None:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        gate.wait(60)
        with lock:
            at_once -= 1

    refused: list[CircuitOpen] = []

    def work() -> None:
        try:
            breaker.call(trial)
        except CircuitOpen as error:
            refused.append(error)
            if len(refused) == 17:
                gate.set()

    threads = [threading.Thread(target=work) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most, len(refused)) == (3, 17)
