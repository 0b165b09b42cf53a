"""That a worker is there: a row in the table of executors, raised by beats, and an eye on the rows of others."""

from __future__ import annotations

import logging
import os
import socket
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.liveness import Beat, Watch
from holdfast.errors import HoldfastError
from holdfast.stores.tasks.database import SQLTaskQueue

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.stores.tasks.store import TaskQueue

logger = logging.getLogger("holdfast.tasks")

_LEASE = 30.0
_BEATS_PER_LEASE = 3


class Presence:
    """Shows a worker among the executors, for people. No task depends on it: those go by their own leases.

    What beats no more for a whole lease is removed, as every executor does. A worker whose own row was removed, since
    it was stuck for so long, registers anew.
    """

    def __init__(self, queue: TaskQueue, worker_id: str, queue_names: Iterable[str]) -> None:
        self._queue = queue if isinstance(queue, SQLTaskQueue) else None  # Redis has no such table
        self._worker_id = worker_id
        self._queues = msgspec.json.encode(sorted(f"tasks:{name}" for name in queue_names)).decode()
        self._incarnation = ""
        self._watch = Watch()

    async def keep(self) -> None:
        """Be there until cancelled; then leave."""
        if self._queue is None:
            return
        try:
            while True:
                await self._try_beat(self._queue)
                await self._queue.world.sleep(_LEASE / _BEATS_PER_LEASE)
        finally:
            await self._leave(self._queue)

    async def _try_beat(self, queue: SQLTaskQueue) -> None:
        try:
            await self._beat(queue)
            await self._look_at_others(queue)
        except HoldfastError as error:
            self._watch.forget()
            logger.warning("The beat of worker %s failed and is tried again: %s", self._worker_id, error)

    async def _beat(self, queue: SQLTaskQueue) -> None:
        beat = queue.queries["worker_beat"]
        if self._incarnation and await queue.manager.execute(beat, incarnation=self._incarnation):
            return
        self._incarnation = queue.world.new_id()
        await queue.manager.execute(
            queue.queries["worker_register"],
            incarnation=self._incarnation,
            executor_id=self._worker_id,
            hostname=socket.gethostname(),
            pid=os.getpid(),
            queues=self._queues,
            lease_ms=round(_LEASE * 1000),
        )

    async def _look_at_others(self, queue: SQLTaskQueue) -> None:
        asked = queue.world.monotonic()
        rows = await queue.manager.fetch(queue.queries["workers_see"])
        beats = [Beat(row["incarnation"], row["beat_seq"], row["lease_ms"] / 1000) for row in rows]
        others = [beat for beat in beats if beat.incarnation != self._incarnation]
        gone = self._watch.look(others, asked, longest_gap=_LEASE, answered=queue.world.monotonic())
        for beat in gone:
            await queue.manager.execute(
                queue.queries["worker_remove"], incarnation=beat.incarnation, beat_seq=beat.sequence
            )

    async def _leave(self, queue: SQLTaskQueue) -> None:
        if self._incarnation:
            try:
                await queue.manager.execute(queue.queries["worker_leave"], incarnation=self._incarnation)
            except HoldfastError as error:
                logger.warning("Worker %s could not sign off: %s", self._worker_id, error)


__all__ = ["Presence"]
