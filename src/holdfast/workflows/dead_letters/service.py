"""Replaying what is due by itself, when it is due, while an application is launched.

Each letter is claimed under its lease, so of several processes one has it. One statement says when the next letter of
any domain is due; then the service sleeps until that moment, or until it hears that a letter was made, and at most a
few seconds. So at rest it is one statement every few seconds, however many domains there are.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from holdfast.db.outlast import first_of
from holdfast.errors import DatabaseError
from holdfast.model.dead_letter import ResolutionTrigger
from holdfast.resilience.replay import CONCURRENCY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.model.dead_letter import FailedOperationData
    from holdfast.model.world import World
    from holdfast.resilience.replay import Find, Replayer
    from holdfast.workflows.dead_letters.face import AsyncDeadLetters

logger = logging.getLogger("holdfast.replay")

REST = 5.0
_BREATH = 0.05  # before what is due but somebody else's is looked at again
_HINTS_APART = 1.0  # a busy database tells of much that is no dead letter


class ReplayService:
    """Replays letters of *domains* when they are due. Lives on the loop."""

    def __init__(
        self, letters: AsyncDeadLetters, replayer: Replayer, find: Find, domains: Sequence[str], world: World
    ) -> None:
        self._letters = letters
        self._replayer = replayer
        self._find = find
        self._domains = tuple(domains)
        self._world = world
        self._woken = asyncio.Event()
        self._looked = world.monotonic()
        self._task: asyncio.Task[None] | None = None
        self._later: asyncio.Task[None] | None = None
        self._running: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Begin; on the loop. Without domains nothing happens."""
        if self._domains and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="holdfast-replays")

    async def stop(self) -> None:
        """End; a replay under way is cancelled, and counts as one that failed."""
        looking = [task for task in (self._task, self._later) if task is not None]
        self._task = self._later = None
        for tasks in (looking, self._running):  # first what begins others
            for task in tasks:
                task.cancel()
            while tasks := [task for task in tasks if not task.done()]:
                await asyncio.wait(tasks)

    def wake(self) -> None:
        """Look now: a letter was made; on the loop."""
        self._woken.set()

    def hinted(self) -> None:
        """Look soon: another process has written something; on the loop."""
        if self._later is None or self._later.done():
            self._later = asyncio.get_running_loop().create_task(self._wake_soon(), name="holdfast-replays-hint")

    async def _wake_soon(self) -> None:
        wait = self._looked + _HINTS_APART - self._world.monotonic()
        if wait > 0:
            await self._world.sleep(wait)
        self.wake()

    async def _run(self) -> None:
        while True:
            self._woken.clear()
            self._looked = self._world.monotonic()
            rest = REST
            try:
                if len(self._running) < CONCURRENCY:  # otherwise the next that ends wakes us
                    rest = await self._begin_due()
            except DatabaseError as error:
                logger.warning("Looking for dead letters that are due failed and is tried again: %s", error)
            except Exception:
                # The service loop: whatever one letter has done to it, the others go on.
                logger.exception("Looking for dead letters that are due failed and is tried again.")
            await self._rest(min(rest, REST))

    async def _begin_due(self) -> float:
        """Begin to replay what is due; return for how long there is nothing more to do."""
        due = await self._letters.due_in(self._domains)
        taken = 0
        for domain in [domain for domain, wait in due.items() if wait <= 0]:
            # In a task of its own, so that tokens of what was claimed are forgotten with it.
            taken += await asyncio.get_running_loop().create_task(self._look(domain))
        return 0 if taken else max(_BREATH, min(due.values(), default=REST))

    async def _rest(self, longest: float) -> None:
        await first_of(self._woken.wait(), self._world.sleep(longest))

    async def _look(self, domain: str) -> int:
        """Begin to replay some letters that are due; return how many. One that takes long keeps no other waiting."""
        taken = await self._letters.acquire_due(max(0, CONCURRENCY - len(self._running)), domain=domain)
        for letter in taken:
            task = asyncio.get_running_loop().create_task(self._replay(letter), name="holdfast-replay")
            self._running.add(task)
            task.add_done_callback(self._ended)
        return len(taken)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._woken.set()

    async def _replay(self, letter: FailedOperationData) -> None:
        try:
            await self._replay_it(letter)
        except DatabaseError as error:
            logger.warning("The end of the replay of %s could not be noted; its lease ends it: %s", letter.id, error)
        except Exception:
            # The service loop: whatever one letter has done to it, the others go on.
            logger.exception("The replay of the dead letter %s failed in a way that was not expected.", letter.id)

    async def _replay_it(self, letter: FailedOperationData) -> None:
        handle = self._find(letter)
        if handle is None:
            await self._letters.complete_replay(
                letter.id, False, note=f"There is no replay handler of {letter.domain!r}.", token=letter.replay_token
            )
            return
        outcome = await self._replayer.carry_out(letter, handle, ResolutionTrigger.SCHEDULED_BATCH)
        logger.info("The dead letter %s of %s was due: %s %s", letter.id, letter.domain, outcome.result, outcome.why)


__all__ = ["REST", "ReplayService"]
