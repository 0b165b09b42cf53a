"""Pruning again and again while an application runs."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.errors import DatabaseError
from holdfast.model.workflow import Duration, seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.model.world import World
    from holdfast.workflows.retention.policy import Retention
    from holdfast.workflows.retention.pruner import Pruner

logger = logging.getLogger("holdfast.retention")

RETENTION_INTERVAL = 60.0
_JITTER = 0.2
_REST = 10  # however large the tables are, looking for what may go takes a tenth of the time at most


class PruneRounds:
    """Have *pruner* delete what fits *policies* every *interval*, for the first time after one; on the loop.

    Several processes may do it at once: no run is deleted sooner for that, and none twice. Without policies nothing is
    done.
    """

    def __init__(
        self, pruner: Pruner, policies: Sequence[Retention], world: World, *, interval: Duration = RETENTION_INTERVAL
    ) -> None:
        self._pruner = pruner
        self._policies = tuple(policies)
        self._world = world
        self._interval = seconds(interval)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; on the loop. A second call changes nothing."""
        if self._policies and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="holdfast-retention")

    async def stop(self) -> None:
        """End after the batch under way. It may be started again."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _run(self) -> None:
        wait = self._interval
        while True:
            # Processes that were started together shall not prune together.
            await self._world.sleep(wait * (1 + _JITTER * (self._world.random.random() - 0.5)))
            begun = self._world.monotonic()
            await self._prune()
            wait = max(self._interval, _REST * (self._world.monotonic() - begun))

    async def _prune(self) -> None:
        try:
            report = await self._pruner.prune(self._policies)
        except DatabaseError as error:
            logger.warning("Deleting old runs failed and is tried again: %s", error)
        except Exception:
            # The service loop: tables that grow are noticed late, so it must not end silently.
            logger.exception("Deleting old runs failed and is tried again.")
        else:
            for each in report.policies:
                if each.deleted:
                    logger.info("Deleted %s ended runs: %s.", each.deleted, each.policy)
