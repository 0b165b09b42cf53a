"""The time a run may take, by a clock that may be set back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from holdfast.testing.world import VirtualWorld
from holdfast.workflows.running.deadlines import Deadlines

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.workflows.control import Control
    from holdfast.workflows.running.run import Run

HOUR = 3600.0


class _Control:
    """Cancels nothing, and counts how often it is asked to."""

    def __init__(self) -> None:
        self.asked = 0

    async def cancel_overdue(self) -> list[str]:
        self.asked += 1
        return []


class _Run:
    id = "a-run"
    ended = False

    def watch(self, hear: Callable[[Any], None]) -> None:
        """Tell nobody: it does not end."""


def test_clock_that_is_set_back_has_nobody_asked_again_and_again() -> None:
    async def main() -> int:
        world, control = VirtualWorld(now=0), _Control()

        def on_loop(work: Callable[[], None]) -> bool:
            work()
            return True

        deadlines = Deadlines(cast("Control", control), world, world.now, on_loop, lambda _: None)
        deadlines.watch(cast("Run", _Run()), 10_000)
        await world.until_asleep(1)
        world.set_clock(-HOUR)  # before the deadline was reached
        await world.advance(HOUR)
        before = control.asked
        await world.advance(11)
        asked = control.asked
        await deadlines.stop()
        assert before == 0
        return asked

    assert asyncio.run(main()) > 0
