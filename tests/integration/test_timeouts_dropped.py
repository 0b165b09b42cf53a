"""Parts whose time was over, in a run that is loaded again: nobody awaits them, and nothing warns of that."""

from __future__ import annotations

import asyncio
import gc
import warnings
from typing import TYPE_CHECKING

from holdfast import AsyncHoldfast

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
