"""What is refused when a function is made durable, or an application is set up: before anything runs."""

from __future__ import annotations

import asyncio
import functools
import math
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast
from unittest.mock import AsyncMock

import pytest

from holdfast import AsyncHoldfast, Holdfast, Retention, Retry
from holdfast.errors import ConfigurationError, InvalidDuration, MisuseError
from holdfast.workflows.queues.settings import check_settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

UNCOUNTABLE: list[Any] = [math.nan, math.inf, 1e20, -1]


def yields() -> Iterator[int]:
    yield 1


async def yields_later() -> AsyncIterator[int]:
    yield 1


def wrapped() -> Any:
    @functools.wraps(yields)
    def wrapper() -> Any:
        return yields()

    return wrapper


class Yields:
    def __call__(self) -> Iterator[int]:
        yield 1


class Adds:
    async def __call__(self, number: int) -> int:
        return number + 1


def plain() -> int:
    return 1


async def later() -> int:
    return 1


def made_async(function: Callable[[], int]) -> Any:
    @functools.wraps(function)
    async def wrapper() -> int:
        return function()

    return wrapper


def passed_on(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper() -> Any:
        return function()

    return wrapper


class Later:
    async def __call__(self) -> int:
        return 1


class Now:
    def __call__(self) -> int:
        return 1


@pytest.mark.parametrize("verb", ["workflow", "step"])
@pytest.mark.parametrize("makes_coroutine", [True, False])
def test_async_function_is_known_as_one_whatever_stands_around_it(verb: str, makes_coroutine: bool) -> None:
    functions: dict[bool, list[Any]] = {
        True: [later, functools.partial(later), made_async(plain), passed_on(later), Later(), AsyncMock()],
        False: [plain, functools.partial(plain), passed_on(plain), Now(), len],
    }
    for number, function in enumerate(functions[makes_coroutine]):
        made = getattr(Holdfast("sqlite:///never.db"), verb)(name=f"f{number}")(function)
        assert made.definition.is_async is makes_coroutine, function


@pytest.mark.parametrize("cap", [None, -1, "3", 2.5, True, 2**31])
def test_cap_on_recovery_attempts_that_is_no_count_is_refused(cap: Any) -> None:
    with pytest.raises(ConfigurationError, match="max_recovery_attempts of the workflow 'plain' is a whole number"):
        Holdfast("sqlite:///never.db").workflow(max_recovery_attempts=cap)(plain)


@pytest.mark.parametrize("app", [Holdfast("sqlite:///never.db"), AsyncHoldfast("sqlite:///never.db")])
@pytest.mark.parametrize(
    "function", [yields, yields_later, wrapped(), staticmethod(yields), functools.partial(yields), Yields()]
)
@pytest.mark.parametrize("verb", ["workflow", "step", "transaction"])
def test_generator_is_refused_where_it_is_decorated(
    app: Holdfast | AsyncHoldfast, function: Callable[..., Any], verb: str
) -> None:
    with pytest.raises(ConfigurationError, match=r"yields.*return its values"):
        getattr(app, verb)(function)


@pytest.mark.parametrize("function", [Adds(), functools.partial(Adds())])
def test_object_whose_call_is_a_coroutine_is_an_async_step(
    fresh_database: Callable[[str], str], function: Callable[[int], Awaitable[int]]
) -> None:
    app = AsyncHoldfast(fresh_database("sqlite"), application_version="1")
    step = app.step(name="adds")(function)

    @app.workflow
    async def twice() -> int:
        return await step(await app.run_step(function, 1))

    once = app.workflow(name="once")(function)

    async def run() -> tuple[int, int]:
        async with app:
            return await twice(), await once(1)

    assert asyncio.run(run()) == (3, 2)


@pytest.mark.parametrize("app", [Holdfast("sqlite:///never.db"), AsyncHoldfast("sqlite:///never.db")])
@pytest.mark.parametrize("verb", ["workflow", "step", "transaction"])
def test_what_is_no_function_is_refused_where_it_is_decorated(app: Holdfast | AsyncHoldfast, verb: str) -> None:
    with pytest.raises(ConfigurationError, match=r"'charge' is no function.*Options are named"):
        getattr(app, verb)("charge")


def test_class_is_no_workflow() -> None:
    app: Any = Holdfast("sqlite:///never.db")
    with pytest.raises(ConfigurationError, match=r"'Retry' is a class: put @app.workflow on one of its methods"):
        app.workflow(Retry)


def test_transaction_that_takes_nothing_is_refused() -> None:
    app: Any = Holdfast("sqlite:///never.db")
    with pytest.raises(ConfigurationError, match=r"'place' takes nothing.*the first parameter"):
        app.transaction(name="place")(lambda: None)
    app.transaction(name="any")(lambda *args: args)


@pytest.mark.parametrize("length", UNCOUNTABLE)
def test_duration_that_no_clock_can_count_is_refused_where_it_is_set(length: Any) -> None:
    app = Holdfast("sqlite:///never.db")
    for name in ("lease", "put_away_after", "pool_timeout", "connect_timeout"):
        with pytest.raises(InvalidDuration, match=name):
            Holdfast("sqlite:///never.db", **cast("Any", {name: length}))
    with pytest.raises(InvalidDuration, match="interval"):
        app.retention(interval=length)
    with pytest.raises(InvalidDuration, match="older_than"):
        Retention(older_than=length)
    with pytest.raises(InvalidDuration, match="drain"):
        app.close(drain=length)
    with pytest.raises(InvalidDuration, match="timeout of the step 'lambda'"):
        app.step(name="lambda", timeout=length)(lambda: None)
    with pytest.raises(InvalidDuration, match="timeout of the transaction 'lambda'"):
        app.transaction(name="lambda", timeout=length)(lambda transaction: None)
    with pytest.raises(InvalidDuration, match="delay"):
        app.replay_runs(delay=length)
    with pytest.raises(ValueError, match="a hundred years"):
        Retry(interval=length)
    with pytest.raises(ValueError, match="a hundred years"):
        Retry(cap=length)


@pytest.mark.parametrize("length", [0.001, 0.05, 86_401, timedelta(days=30)])
def test_lease_that_no_server_can_keep_is_refused(length: Any) -> None:
    with pytest.raises(InvalidDuration, match=r"lease is a number of seconds, or a timedelta, from 0\.1 s to 86400 s"):
        Holdfast("postgresql://nobody@nowhere/none", lease=length)


@pytest.mark.parametrize("length", [*UNCOUNTABLE, 1e308, 0, 1e-300])
def test_period_of_a_queue_that_no_column_holds_is_refused(length: Any) -> None:
    for settings in (
        {"rate_limit_max": 1, "rate_limit_period_sec": length},
        {"partition_queue": True, "partition_rate_limit_max": 1, "partition_rate_limit_period_sec": length},
        {"polling_interval_sec": length},
    ):
        with pytest.raises(InvalidDuration, match="_sec of the queue 'work'"):
            check_settings("work", settings)


@pytest.mark.parametrize("app", [Holdfast("sqlite:///never.db"), AsyncHoldfast("sqlite:///never.db")])
def test_option_that_a_step_or_protect_does_not_have_is_refused_with_those_there_are(app: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"The step 'charge' has no option retries_allowed, max_.*; there are"):
        app.step(name="charge", retries_allowed=True, max_attempts=5)(lambda: None)
    with pytest.raises(ConfigurationError, match=r"no option fallbck; there are .*retry.*idempotency_key"):
        app.protect("mail", fallbck=3)
    assert app._engine.registry.steps == {}


@pytest.mark.parametrize("app", [Holdfast("sqlite:///never.db"), AsyncHoldfast("sqlite:///never.db")])
@pytest.mark.parametrize("retry", [3, True, 0, {"attempts": 3}, Retry])
def test_retry_that_is_none_is_refused_where_it_is_said(app: Any, retry: Any) -> None:
    for verb in ("workflow", "step", "transaction"):
        with pytest.raises(ConfigurationError, match=f"retry of the {verb} 'charge' is a Retry"):
            getattr(app, verb)(name="charge", retry=retry)(lambda _: None)
    with pytest.raises(ConfigurationError, match=r"retry of protect\('mail'\) is a Retry"):
        app.protect("mail", retry=retry)
    assert app._engine.registry.steps == app._engine.registry.workflows == {}


@pytest.mark.parametrize(
    ("said", "refusal"),
    [
        (lambda app: app.step(breaker=3)(print), "breaker of 'print' is a breaker, the name of one"),
        (lambda app: app.retention(30), r"retention\(\) takes policies.*not 30"),
        (lambda app: app.workflow(name="w")(print).options(attributes=["a"]), "attributes are names and their values"),
        (lambda _: Holdfast("never.db", notify=cast("Any", "no")), "notify is True or False, not 'no'"),
        (lambda _: Holdfast("never.db", pooled=cast("Any", "no")), "pooled is True or False, not 'no'"),
        (
            lambda _: Retry(when=cast("Any", LookupError)),
            r"not LookupError: write when=lambda error: isinstance\(error, LookupError",
        ),
    ],
)
def test_what_would_mean_something_else_than_it_says_is_refused(said: Callable[[Any], Any], refusal: str) -> None:
    with pytest.raises((ConfigurationError, MisuseError, TypeError), match=refusal):
        said(Holdfast("sqlite:///never.db"))
