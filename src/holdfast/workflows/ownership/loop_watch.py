"""Whether the event loop answers: asked at every beat, from the beat's thread.

A loop that user code blocks is not a database that hangs: the executor beats on, its row says since when, and the log
says who does it. How long writes have been under way tells nothing about the database unless the loop was free all the
while.
"""

from __future__ import annotations

import logging
import sys
import traceback
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.model.world import World

logger = logging.getLogger("holdfast.executor")


class Loop(Protocol):
    """The event loop as another thread sees it."""

    def ping(self, answer: Callable[[], None]) -> None:
        """Have *answer* called on the event loop."""

    def loop_thread(self) -> int:
        """Return the identifier of the event loop's thread."""


class LoopWatch:
    """Asks the loop now and then; an answer that takes longer than *patience* seconds shows that it is blocked."""

    def __init__(self, loop: Loop, world: World, *, patience: float) -> None:
        self._loop = loop
        self._world = world
        self._patience = patience
        self._answered = True
        self._asked = world.monotonic()
        self._free_since = self._asked
        self.stalled_since: int | None = None

    def look(self) -> None:
        """Note whether the last question was answered; if so, ask again."""
        now = self._world.monotonic()
        if self._answered:
            self.stalled_since = None
            self._answered, self._asked = False, now
            self._loop.ping(self._answer)
        elif now - self._asked > self._patience:
            self._free_since = now
            if self.stalled_since is None:
                self.stalled_since = int(self._world.now() * 1000)
                logger.warning("The event loop is blocked, by %s: no async workflow can go on here.", self._culprit())

    def free_for(self) -> float:
        """Return for how many seconds the loop has answered in time without a break."""
        return self._world.monotonic() - self._free_since

    def _answer(self) -> None:
        now = self._world.monotonic()
        if now - self._asked > self._patience:
            self._free_since = now
        self._answered = True

    def _culprit(self) -> str:
        frame = sys._current_frames().get(self._loop.loop_thread())  # noqa: SLF001 -- the only way to see another thread
        return "unknown" if frame is None else str(traceback.extract_stack(frame)[-1])
