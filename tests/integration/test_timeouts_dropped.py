"""Parts of a run that nobody awaits any more: their time was over, or who awaited them was cancelled."""

from __future__ import annotations

import asyncio
import gc
import warnings
from typing import TYPE_CHECKING

import pytest

from holdfast import AsyncHoldfast
from holdfast.errors import NotInitialized

if TYPE_CHECKING:
    from collections.abc import Callable


def test_parts_of_a_part_that_was_late_are_dropped_on_replay(fresh_database: Callable[[str], str]) -> None:
    app = AsyncHoldfast(fresh_database("sqlite"), put_away_after=0.1)
    lives = []

    @app.step
    async def effect(number: int) -> int:
        return number

    @app.workflow
    async def late() -> str:
        lives.append("begun")
        try:
            await app.timeout(0.01, app.gather(app.sleep(600), app.gather(effect(1), effect(2))))
        except TimeoutError:
            await app.sleep(0.5)  # put away, and loaded again: the part is dropped
            return "late"
        return "in time"

    async def main() -> None:
        async with app:
            assert await (await late.start()).result(timeout=60) == "late"

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        asyncio.run(main())
        gc.collect()
    assert len(lives) > 1
    assert [str(each.message) for each in told if "never awaited" in str(each.message)] == []


def test_part_of_a_timeout_that_is_cancelled_has_ended_before_anything_else_begins(
    fresh_database: Callable[[str], str],
) -> None:
    app = AsyncHoldfast(fresh_database("sqlite"))
    did, begun = [], asyncio.Event()

    @app.step
    async def endless() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(100):  # turns of the loop in which others could begin
                await asyncio.sleep(0)
            did.append("ended")

    @app.step
    async def after() -> None:
        did.append("after")

    @app.workflow
    async def impatient() -> None:
        awaiting = asyncio.ensure_future(app.timeout(60, endless()))
        await begun.wait()
        awaiting.cancel()
        await asyncio.gather(awaiting, return_exceptions=True)
        await after()

    async def main() -> None:
        async with app:
            await (await impatient.start()).result(timeout=60)

    asyncio.run(main())
    assert did == ["ended", "after"]


def test_parts_of_a_run_whose_application_closes_are_dropped(fresh_database: Callable[[str], str]) -> None:
    app = AsyncHoldfast(fresh_database("sqlite"))
    begun, heard = asyncio.Event(), []

    @app.step
    async def effect() -> None:
        heard.append("effect")

    @app.workflow
    async def stubborn() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:  # what is called from here goes no further: the run has been stopped with its application
            try:
                await app.timeout(60, app.gather(effect(), effect()))
            except BaseException as error:
                heard.append(type(error).__name__)
                raise

    async def main() -> None:
        async with app:
            await stubborn.start()
            await begun.wait()
        with pytest.raises(NotInitialized):
            await app.timeout(60, effect())

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        asyncio.run(main())
        gc.collect()
    assert heard == ["Closing"]
    assert [str(each.message) for each in told if "never awaited" in str(each.message)] == []
