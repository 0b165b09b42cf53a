"""The closing of an engine: begun once, and carried to its end, whoever waits for it or ceases to."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    Part = Callable[[], Awaitable[object]]


class Ending:
    """Ends the parts of an engine one after the other, in a task of its own.

    A part that fails, or is cancelled with its loop, keeps none of the others from ending; its error is raised when
    all have. *parts* returns them in their order; the future it gets is done when what runs has no more time.
    """

    def __init__(self, parts: Callable[[asyncio.Future[None]], Sequence[Part]]) -> None:
        loop = asyncio.get_running_loop()
        self._no_more_time: asyncio.Future[None] = loop.create_future()
        self._task = loop.create_task(_end(parts(self._no_more_time)), name="holdfast-close")

    async def over(self) -> None:
        """Wait until all parts have ended."""
        await asyncio.wait([self._task])

    async def within(self, drain: float) -> None:
        """Give what runs *drain* seconds from now, wait until all parts have ended, and raise what one of them raised.

        A caller that is cancelled gives no more time, but waits for the end. If it is cancelled once more the closing
        goes on without it.
        """
        try:
            await asyncio.wait([self._task], timeout=drain)
        finally:
            if not self._no_more_time.done():
                self._no_more_time.set_result(None)
            await self.over()
        if not self._task.cancelled():  # as it is if the loop that the parts were begun on ended before
            self._task.result()


async def _end(parts: Sequence[Part]) -> None:
    async with AsyncExitStack() as left:
        for part in reversed(parts):
            left.push_async_callback(part)


__all__ = ["Ending"]
