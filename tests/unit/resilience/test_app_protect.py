"""``app.breaker``, ``app.protect`` and the same options on steps, on SQLite: layers, and their order."""

from __future__ import annotations

import asyncio
import functools
import time
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import AsyncHoldfast, Holdfast, Retry
from holdfast.errors import CallTimeout, CircuitOpen, ConfigurationError, InvalidDuration
from holdfast.stores import InMemoryIdempotencyStore, SQLCircuitBreakerStateRepository, SQLFailedOperationRepository
from holdfast.testing.workers import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Broken(Exception):
    """What a dependency raises that does not work."""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/app.sqlite"


@pytest.fixture
def app(url: str) -> Iterator[Holdfast]:
    app = Holdfast(url, name="guarded")
    yield app
    app.close()


def letters(url: str, domain: str) -> list[Any]:
    with SQLFailedOperationRepository(url) as repository:
        return repository.get_pending_by_domain(domain)


def test_breaker_of_a_name_is_one_object_and_says_its_options_once(app: Holdfast) -> None:
    breaker = app.breaker("api", failures=2)
    assert app.breaker("api") is breaker
    assert app.breaker("api", failures=2) is breaker
    with pytest.raises(ConfigurationError, match="other options"):
        app.breaker("api", failures=3)
    with pytest.raises(ConfigurationError, match="without keys"):
        app.keyed_breakers("api")
    keyed = app.keyed_breakers("hosts", failures=1)
    assert app.keyed_breakers("hosts") is keyed
    with pytest.raises(ConfigurationError, match="with keys"):
        app.breaker("hosts")


def test_breaker_shares_the_applications_database_from_launch_to_close(app: Holdfast, url: str) -> None:
    breaker = app.breaker("api", failures=1)
    assert breaker.call(str, 1) == "1"
    with app:
        assert breaker.call(str, 2) == "2"
        app.breakers.atomic_force_open("api", "maintenance")
        until(lambda: breaker.state == "open")
        with pytest.raises(CircuitOpen, match="maintenance"):
            breaker.call(str, 3)
    assert breaker.call(str, 4) == "4"  # nobody can be asked
    with app, pytest.raises(CircuitOpen, match="maintenance"):
        breaker.call(str, 5)
    with SQLCircuitBreakerStateRepository(url) as repository:
        repository.reset("api")
        with app:
            assert breaker.call(str, 6) == "6"


def test_what_opened_before_launch_is_reported_then(app: Holdfast) -> None:
    breaker = app.breaker("api", failures=1)
    with pytest.raises(Broken), breaker:
        raise Broken
    with app:
        with pytest.raises(CircuitOpen):
            breaker.call(str, 1)
        until(lambda: [each.service_name for each in app.breakers.get_open_states()] == ["api"])


def test_protected_function_tries_again_within_its_time_and_falls_back(app: Holdfast) -> None:
    calls: list[int] = []

    @app.protect("api", retry=Retry(attempts=3, interval=0), timeout=30, fallback=lambda number: -number)
    def depend(number: int) -> int:
        calls.append(number)
        if len(calls) % 3:
            raise Broken
        return number

    assert depend(1) == 1
    assert calls == [1, 1, 1]

    @app.protect("always", retry=Retry(attempts=2, interval=0), fallback="none")
    def always() -> str:
        calls.append(0)
        raise Broken

    assert always() == "none"
    assert calls[3:] == [0, 0]


def test_each_attempt_counts_for_the_breaker_and_an_open_one_is_not_tried_again(app: Holdfast) -> None:
    calls: list[int] = []
    breaker = app.breaker("api", failures=2)

    @app.protect("api", retry=Retry(attempts=5, interval=0))
    def depend() -> None:
        calls.append(1)
        raise Broken

    with pytest.raises(CircuitOpen):
        depend()
    assert (len(calls), breaker.metrics.rejected) == (2, 1)


def test_retry_that_asks_for_it_waits_for_the_breaker(app: Holdfast) -> None:
    breaker = app.breaker("api", failures=1, open_for=0, successes=1)
    works = iter([False, True])

    @app.protect("api", retry=Retry(attempts=3, interval=0, when=lambda error: True))
    def depend() -> str:
        if not next(works):
            raise Broken
        return "fine"

    assert depend() == "fine"
    assert breaker.state == "closed"


def test_call_that_hangs_counts_against_the_breaker(app: Holdfast) -> None:
    breaker = app.breaker("api", failures=1)

    @app.protect("api", timeout=0.01)
    def hang() -> None:
        time.sleep(0.5)

    with pytest.raises(CallTimeout):
        hang()
    assert breaker.state == "open"


def test_failure_is_kept_once_with_its_arguments_even_if_the_breaker_refused(app: Holdfast, url: str) -> None:
    @app.protect("pay", retry=Retry(attempts=2, interval=0), dead_letter="payments", fallback=None)
    def pay(order: str, *, cents: int) -> None:
        raise Broken(f"{order} cannot be paid")

    with app:
        assert pay("o-1", cents=5) is None
        app.breakers.atomic_force_open("pay")
        until(lambda: app.breaker("pay").state == "open")
        assert pay("o-2", cents=6) is None
    first, second = sorted(letters(url, "payments"), key=lambda letter: letter.created_at)
    assert (first.failure_type, first.error_message) == ("Broken", "o-1 cannot be paid")
    assert first.request_data == {"positionalArgs": ["o-1"], "namedArgs": {"cents": 5}}
    assert first.metadata == {"protect": "pay"}
    assert (second.failure_type, second.request_data["positionalArgs"]) == ("CircuitOpen", ["o-2"])


def test_arguments_that_cannot_be_kept_do_not_hide_the_failure(app: Holdfast, url: str) -> None:
    @app.protect("pay", dead_letter=True)
    def pay(order: object) -> None:
        raise Broken

    with app, pytest.raises(Broken):
        pay(object())
    [letter] = letters(url, "pay")
    assert "object" in letter.request_data["_not_kept"]


def test_dead_letter_that_cannot_be_written_does_not_hide_the_error(app: Holdfast) -> None:
    @app.protect("pay", dead_letter=True)
    def pay() -> None:
        raise Broken

    with pytest.raises(Broken) as raised:  # the application is not launched
        pay()
    assert "could not be kept" in raised.value.__notes__[0]


@pytest.mark.parametrize("timeout", [0, -1, float("inf"), float("nan"), 1e12, "soon"])
def test_timeout_that_no_clock_counts_is_refused(app: Holdfast, timeout: Any) -> None:
    for function, interrupt in ((str, False), (str, True), (asyncio.sleep, False)):
        with pytest.raises(InvalidDuration, match="timeout of 'pay'"):
            app.protect("pay", timeout=timeout, interrupt=interrupt)(function)


def test_generators_are_refused_and_objects_have_the_colour_of_their_call(app: Holdfast) -> None:
    class Pays:
        async def __call__(self) -> None:
            raise LookupError

    with pytest.raises(ConfigurationError, match=r"protect\('pay'\) cannot guard the generator function"):
        app.protect("pay")(_pages)
    pays: Any = app.protect("pay", fallback="later", timeout=60)(Pays())
    assert asyncio.run(pays()) == "later"
    assert app.breaker("pay").metrics.failures_in_a_row == 1


def _pages() -> Iterator[int]:
    yield 1


def test_one_call_for_each_idempotency_key_and_fallbacks_are_not_stored(app: Holdfast) -> None:
    calls: list[str] = []

    @app.protect("pay", idempotency_key=lambda order: f"pay-{order}", fallback="later")
    def pay(order: str) -> object:
        calls.append(order)
        if len(calls) == 1:
            raise Broken
        return {"number": len(calls)}

    with app:
        assert pay("a") == "later"
        assert pay("a") == pay("a") == {"number": 2}
        assert pay("b") == {"number": 3}
    assert calls == ["a", "a", "b"]


def test_async_fallback_of_a_sync_function_is_refused(app: Holdfast) -> None:
    async def later(order: str) -> str:
        return f"later {order}"

    def pay(order: str) -> str:
        raise Broken

    for fallback in (later, functools.partial(later, "a")):
        with pytest.raises(ConfigurationError, match="fallback of 'pay' is async"):
            app.protect("pay", fallback=fallback)(pay)
    assert app.protect("pay", fallback=str)(pay)("a") == "a"


def test_async_functions_have_the_same_layers(url: str) -> None:
    async def main() -> list[Any]:
        app = AsyncHoldfast(url, name="guarded")
        calls: list[str] = []

        @app.protect("hang", timeout=0.01, dead_letter=True, fallback="slow")
        async def hang() -> str:
            await asyncio.sleep(60)
            return "fine"

        @app.protect("pay", retry=Retry(attempts=2, interval=0), idempotency_key="k")
        async def pay(order: str) -> str:
            calls.append(order)
            if len(calls) == 1:
                raise Broken
            return order

        async with app:
            return [await hang(), await pay("a"), await pay("a"), len(calls)]

    assert asyncio.run(main()) == ["slow", "a", "a", 2]
    assert [each.failure_type for each in letters(url, "hang")] == ["CallTimeout"]


def test_step_has_the_same_options_and_its_timeout_counts(app: Holdfast, url: str) -> None:
    breaker = app.breaker("api", failures=2)

    @app.step(breaker="api", timeout=0.01, retry=Retry(attempts=5, interval=0), dead_letter="slow", fallback="nothing")
    def slow(number: int) -> str:
        time.sleep(0.5)
        return "late"

    @app.step(breaker="api", retry=Retry(attempts=2, interval=0))
    def refused() -> str:
        return "fine"

    @app.workflow
    def work() -> str:
        return slow(7)

    @app.workflow
    def work_refused() -> str:
        return refused()

    with app:
        assert work() == "nothing"
        assert breaker.state == "open"
        with pytest.raises(CircuitOpen) as error:
            work_refused()
        assert error.value.service_name in {"api", ""}
    [letter] = letters(url, "slow")
    assert letter.failure_type == "CircuitOpen"
    assert letter.request_data["positionalArgs"] == [7]


def test_async_step_passes_its_breaker(url: str) -> None:
    async def main() -> str:
        app = AsyncHoldfast(url, name="guarded")
        breaker = app.breaker("api", failures=1)

        @app.step(breaker=breaker)
        async def fails() -> str:
            raise Broken

        @app.workflow
        async def work() -> str:
            return await fails()

        async with app:
            with pytest.raises(Broken):
                await work()
            return breaker.state

    assert asyncio.run(main()) == "open"


def test_keyed_step_is_the_same_call_whether_its_arguments_are_given_by_name_or_in_their_place(app: Holdfast) -> None:
    done: list[str] = []

    @app.step(idempotency_key=lambda order: f"pay {order}")
    def pay(order: str) -> Decimal:
        done.append(order)
        return Decimal("8.90")

    @app.workflow
    def checkout(*, by_name: bool) -> Decimal:
        return pay(order="a") if by_name else pay("a")

    with app:
        assert [checkout(by_name=False), checkout(by_name=True)] == [Decimal("8.90")] * 2
    assert done == ["a"]


def test_keyed_breakers_stand_apart_and_are_bounded(app: Holdfast) -> None:
    hosts = app.keyed_breakers("hosts", most=2, failures=1)
    for host in ("a", "b"):
        with pytest.raises(Broken), hosts[host]:
            raise Broken
    assert hosts["a"].state == "open"
    assert hosts["c"].state == "closed"
    assert len(hosts) == 2
    assert "b" not in hosts
    assert hosts["a"].name == "hosts:a"


def test_dead_letters_are_replayed_when_the_breaker_closes(app: Holdfast, url: str) -> None:
    breaker = app.breaker("pay", failures=2, open_for=0, successes=1)
    works, paid = [False], []

    @app.protect("pay", dead_letter="payments", replay_on_close=True, fallback=None)
    def pay(order: str) -> None:
        if not works[0]:
            raise Broken
        paid.append(order)

    with app:
        for order in ("a", "b"):
            pay(order)
        until(lambda: len(app.breakers.get_open_states()) == 1)
        works[0] = True
        until(lambda: pay("c") is None and "c" in paid)
        until(lambda: {"a", "b"} <= set(paid))
        until(lambda: not letters(url, "payments"))
        assert breaker.state == "closed"
    assert paid.count("a") == paid.count("b") == 1


def test_replay_on_close_needs_something_to_replay_and_something_that_closes(app: Holdfast) -> None:
    for options in ({"dead_letter": True, "breaker": False}, {"dead_letter": False}):
        with pytest.raises(ConfigurationError, match="replay_on_close"):
            app.protect("pay", replay_on_close=True, **options)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "wrong", [5, 0, 1, "", "x" * 256, "half \ud800", "nul \0", ["payments"], b"payments", object()]
)
def test_domain_that_no_letter_can_have_is_refused_where_it_is_given(app: Holdfast, wrong: Any) -> None:
    def pay() -> None: ...

    with pytest.raises(ConfigurationError, match=r"of 'pay' (is|has)"):
        app.protect("pay", dead_letter=wrong)
    with pytest.raises(ConfigurationError, match=r"of the step 'pay' (is|has)"):
        app.step(name="pay", dead_letter=wrong)(pay)
    with pytest.raises(ConfigurationError, match=r"of the workflow 'pay' (is|has)"):
        app.workflow(name="pay", dead_letter=wrong)(pay)


def test_name_that_cannot_be_the_domain_of_its_letters_is_refused(app: Holdfast) -> None:
    with pytest.raises(ConfigurationError, match="domain of the dead letters"):
        app.protect("", dead_letter=True, breaker=False)


def test_domain_may_be_a_member_of_an_enum_or_none_at_all(app: Holdfast, url: str) -> None:
    class Domain(StrEnum):
        PAY = "payments"

    none: Any = None

    @app.protect("pay", dead_letter=Domain.PAY, fallback=None)
    def pay() -> None:
        raise Broken

    @app.protect("mail", dead_letter=none, fallback=None)
    def mail() -> None:
        raise Broken

    with app:
        pay()
        mail()
        assert app.dead_letters.count() == 1
    assert len(letters(url, "payments")) == 1


@pytest.mark.parametrize("store", [5, "memory", InMemoryIdempotencyStore, object()])
def test_store_of_keys_that_is_none_is_refused_where_it_is_given(app: Holdfast, store: Any) -> None:
    with pytest.raises(ConfigurationError, match="idempotency_store of 'pay' is an InMemoryIdempotencyStore"):
        app.protect("pay", idempotency_key="k", idempotency_store=store)
    with pytest.raises(ConfigurationError, match="idempotency_store of 'pay' is an InMemoryIdempotencyStore"):
        app.step(name="pay", idempotency_key="k", idempotency_store=store)(str)


def test_store_of_keys_without_a_key_is_refused(app: Holdfast) -> None:
    for decorate in (app.protect, lambda name, **options: app.step(name=name, **options)(str)):
        with pytest.raises(ConfigurationError, match="idempotency_store of 'pay' needs an idempotency_key"):
            decorate("pay", idempotency_store=InMemoryIdempotencyStore())
