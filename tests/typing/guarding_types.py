"""What a type checker must say about guarded functions, and about handlers of dead letters. Never run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_type

from holdfast import AsyncHandle, AsyncHoldfast, Handle, Holdfast, Retry

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from holdfast.stores import FailedOperationData

app = Holdfast("sqlite:///x.sqlite")
aapp = AsyncHoldfast()


def cached(order: str) -> float:
    return len(order)


async def cached_later(order: str) -> float:
    return len(order)


@app.protect("plain", retry=Retry(), timeout=3, dead_letter=True)
def plain(order: str) -> str:
    return order


@app.protect("none", fallback=None)
def or_none(order: str) -> str:
    return order


@app.protect("same", retry=Retry(), fallback="x", breaker=False)
def or_same(order: str) -> str:
    return order


@app.protect("function", fallback=cached)
def or_cached(order: str) -> str:
    return order


@app.protect("lambda", fallback=lambda order: order)
def or_itself(order: str) -> str:
    return order


@aapp.protect("later", fallback=None)
async def later_or_none(order: str) -> str:
    return order


@aapp.protect("later function", fallback=cached_later)
async def later_or_cached(order: str) -> str:
    return order


@app.step(fallback=None)
def step_or_none(order: str) -> str:
    return order


@app.step(name="x", fallback=cached, breaker="api")
def step_or_cached(order: str) -> str:
    return order


@aapp.step(fallback=None)
async def async_step_or_none(order: str) -> str:
    return order


@aapp.step(fallback=cached_later)
async def async_step_or_cached(order: str) -> str:
    return order


async def guarded() -> None:
    assert_type(plain("a"), str)
    assert_type(or_none("a"), str | None)
    assert_type(or_same("a"), str)
    assert_type(or_cached("a"), str | float)
    or_none(1)  # type: ignore[arg-type]
    or_itself(1)  # type: ignore[arg-type]
    assert_type(await later_or_none("a"), str | None)
    assert_type(await later_or_cached("a"), str | float)
    assert_type(step_or_none("a"), str | None)
    assert_type(step_or_cached("a"), str | float)
    assert_type(await async_step_or_none("a"), str | None)
    assert_type(await async_step_or_cached("a"), str | float)
    app.protect("x", fallbck=3)  # type: ignore[call-overload]
    app.step(retries=3)  # type: ignore[call-overload]
    app.step(retry=3)  # type: ignore[call-overload]
    called: Callable[[str], str | None] = or_none
    awaited: Callable[[str], Coroutine[Any, Any, str | None]] = later_or_none
    called("a")
    await awaited("a")


@app.workflow
def count(order: str) -> int:
    return len(order)


@app.workflow
def name(order: str) -> str:
    return order


@aapp.workflow
async def acount(order: str) -> int:
    return len(order)


@aapp.workflow
async def aname(order: str) -> str:
    return order


def _ends_somehow(handle: Handle[object]) -> None:
    assert_type(app.wait_all([handle]), list[object])


async def handles() -> None:
    _ends_somehow(count.start("a"))
    app.wait_all([count.start("a"), name.start("a")])
    app.wait_first([count.start("a"), name.start("a")])
    wrong: Handle[str] = count.start("a")  # type: ignore[assignment]
    wrong.result()
    later: AsyncHandle[object] = await acount.start("a")
    await later
    await aapp.wait_all([await acount.start("a"), await aname.start("a")])


@app.replay_handler("mail")
def by_letter(letter: FailedOperationData) -> str:
    return letter.domain


@aapp.replay_handler("mail", automatic=True, delay=3)
async def by_letter_later(letter: FailedOperationData) -> None:
    del letter


@app.replay_handler("charge", with_arguments=True)
def by_arguments(order: str, cents: int) -> str:
    return order * cents


@app.replay_handler("wrong")  # type: ignore[type-var]
def wrong_handler(order: int) -> None:
    del order


def handlers() -> None:
    assert_type(by_letter(app.dead_letters.get("x")), str)  # type: ignore[arg-type]
    app.replay_handler("payments", count)
    app.replay_handler("steps", step_or_none)
    assert_type(app.replay_handler("plain", cached, with_arguments=True)("a"), float)
    app.replay_handler("plain", by_letter)
    app.replay_handler("wrong", cached)  # type: ignore[type-var]
