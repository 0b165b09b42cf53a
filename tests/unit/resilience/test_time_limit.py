"""Time limits of async calls: who is late, who is not, and what is left of a cancellation."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import CallTimeout
from holdfast.resilience.interrupting import Late
from holdfast.resilience.layers import timed
from holdfast.resilience.time_limit import TimeLimit

if TYPE_CHECKING:
    from collections.abc import Coroutine


class Loop(asyncio.SelectorEventLoop):
    """A loop whose time stands still until it is moved."""

    now = 0.0

    def time(self) -> float:
        return self.now

    async def pass_time(self, seconds: float) -> None:
        """Let time go on, and whoever is woken by that run."""
        self.now += seconds
        for _ in range(5):
            await asyncio.sleep(0)

    async def begin(self, limit: TimeLimit, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Let *work* begin, and come to where it waits."""
        task = self.create_task(within(limit, work))
        await self.pass_time(0)
        return task


def play(scene: Any) -> None:
    loop = Loop()
    try:
        loop.run_until_complete(scene(loop))
    finally:
        loop.close()


async def within(limit: TimeLimit, work: Coroutine[Any, Any, Any]) -> Any:
    with limit():
        return await work


def test_each_call_is_late_when_its_own_time_is_over() -> None:
    async def scene(loop: Loop) -> None:
        limit, never = TimeLimit(10), asyncio.Event()
        first = await loop.begin(limit, never.wait())
        await loop.pass_time(4)
        second = await loop.begin(limit, never.wait())
        await loop.pass_time(5)
        third = await loop.begin(limit, never.wait())
        assert not first.done()
        await loop.pass_time(1)
        assert isinstance(first.exception(), Late)
        await loop.pass_time(3)
        assert not second.done()
        await loop.pass_time(1)
        assert isinstance(second.exception(), Late)
        assert not third.done()
        never.set()
        assert await third is True

    play(scene)


def test_call_that_was_in_time_is_left_alone_afterwards() -> None:
    async def scene(loop: Loop) -> None:
        limit, go_on, never = TimeLimit(10), asyncio.Event(), asyncio.Event()

        async def two() -> None:
            await within(limit, go_on.wait())
            await within(limit, never.wait())

        task = loop.create_task(two())
        await loop.pass_time(0)
        await loop.pass_time(6)
        go_on.set()
        await loop.pass_time(0)
        await loop.pass_time(9)  # the timer was set for the first
        assert not task.done()
        await loop.pass_time(1)
        assert isinstance(task.exception(), Late)
        assert task.cancelling() == 0

    play(scene)


def test_late_call_that_does_not_let_itself_be_cancelled_returns_its_value() -> None:
    async def scene(loop: Loop) -> None:
        async def stubborn() -> str:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return "done all the same"
            return "never"

        task = await loop.begin(TimeLimit(10), stubborn())
        await loop.pass_time(10)
        assert await task == "done all the same"
        assert task.cancelling() == 0

    play(scene)


def test_call_that_is_cancelled_by_somebody_else_as_well_stays_cancelled() -> None:
    async def scene(loop: Loop) -> None:
        task = await loop.begin(TimeLimit(10), asyncio.Event().wait())
        task.cancel()
        await loop.pass_time(10)
        assert task.cancelled()

    play(scene)


def test_inner_and_outer_limit_tell_their_own() -> None:
    async def scene(loop: Loop) -> None:
        outer, inner, never = TimeLimit(10), TimeLimit(4), asyncio.Event()

        async def nested() -> str:
            with pytest.raises(Late):
                await within(inner, never.wait())
            await never.wait()
            return "never"

        task = await loop.begin(outer, nested())
        await loop.pass_time(4)
        assert not task.done()
        await loop.pass_time(6)
        assert isinstance(task.exception(), Late)

    play(scene)


def test_one_limit_serves_one_loop_after_another() -> None:
    limit = TimeLimit(10)
    for _ in range(2):

        async def scene(loop: Loop) -> None:
            task = await loop.begin(limit, asyncio.Event().wait())
            await loop.pass_time(10)
            assert isinstance(task.exception(), Late)

        play(scene)


def test_timeout_error_of_the_call_itself_is_no_call_timeout() -> None:
    async def own() -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own") as raised:
        asyncio.run(timed(own, "api", 60, is_async=True)())
    assert not isinstance(raised.value, CallTimeout)


def test_late_call_says_its_name_and_its_time() -> None:
    with pytest.raises(CallTimeout, match=r"'api' took longer than its timeout of 0\.01 s"):
        asyncio.run(timed(asyncio.sleep, "api", 0.01, is_async=True)(600))
