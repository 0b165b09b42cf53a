"""Replaying what is due by itself, while an application is launched.

Each letter is claimed under its lease, so of several processes one has it. At rest it is one statement a domain every
few seconds.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.errors import DatabaseError
from holdfast.model.dead_letter import ResolutionTrigger
from holdfast.resilience.replay import CONCURRENCY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.model.dead_letter import FailedOperationData
    from holdfast.model.world import World
    from holdfast.resilience.replay import Find, Replayer
    from holdfast.stores.dead_letters.repository import AsyncFailedOperationRepository

logger = logging.getLogger("holdfast.replay")

REST = 5.0


class ReplayService:
    """Replays letters of *domains* when they are due. Lives on the loop."""

    def __init__(
        self,
        letters: AsyncFailedOperationRepository,
        replayer: Replayer,
        find: Find,
        domains: Sequence[str],
        world: World,
    ) -> None:
        self._letters = letters
        self._replayer = replayer
        self._find = find
        self._domains = tuple(domains)
        self._world = world
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; on the loop. Without domains nothing happens."""
        if self._domains and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="holdfast-replays")

    async def stop(self) -> None:
        """End; a replay under way is cancelled, and counts as one that failed."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def wake(self) -> None:
        """Look now: a letter was made; on the loop."""
        self._woken.set()

    async def _run(self) -> None:
        while True:
            self._woken.clear()
            taken = 0
            try:
                for domain in self._domains:
                    # In a task of its own, so that tokens of what was claimed are forgotten with it.
                    taken += await asyncio.get_running_loop().create_task(self._look(domain))
            except DatabaseError as error:
                logger.warning("Looking for dead letters that are due failed and is tried again: %s", error)
            except Exception:
                # The service loop: whatever one letter has done to it, the others go on.
                logger.exception("Looking for dead letters that are due failed and is tried again.")
            if not taken:
                await self._rest()

    async def _rest(self) -> None:
        woken = asyncio.ensure_future(self._woken.wait())
        slept = asyncio.ensure_future(self._world.sleep(REST))
        try:
            await asyncio.wait([woken, slept], return_when=asyncio.FIRST_COMPLETED)
        finally:
            woken.cancel()
            slept.cancel()

    async def _look(self, domain: str) -> int:
        """Replay some letters that are due; return how many."""
        taken = await self._letters.acquire_due(CONCURRENCY, domain=domain)
        if taken:
            async with asyncio.TaskGroup() as group:
                for letter in taken:
                    group.create_task(self._replay(letter))
        return len(taken)

    async def _replay(self, letter: FailedOperationData) -> None:
        handle = self._find(letter)
        if handle is None:
            await self._letters.complete_replay(
                letter.id, False, note=f"There is no replay handler of {letter.domain!r}.", token=letter.replay_token
            )
            return
        outcome = await self._replayer.carry_out(letter, handle, ResolutionTrigger.SCHEDULED_BATCH)
        logger.info("The dead letter %s of %s was due: %s %s", letter.id, letter.domain, outcome.result, outcome.why)


__all__ = ["REST", "ReplayService"]
