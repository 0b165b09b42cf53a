"""Queues that runs are put in and nobody has registered: the runs wait, and somebody should be told."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.workflows.engine.engine import Engine

logger = logging.getLogger("holdfast.workflows")


class Unregistered:
    """Warns of each such queue, once a process. It looks for a queue only if its settings are not at hand."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._asked: set[str] = set()
        self._looks: set[asyncio.Task[None]] = set()

    def put_in(self, queue_name: str) -> None:
        """Take notice of a run that is put in a queue; from any thread."""
        if queue_name not in self._asked and self._engine.dispatch.queue(queue_name) is None:
            self._asked.add(queue_name)
            self._engine.on_loop(partial(self._begin, queue_name))

    def _begin(self, queue_name: str) -> None:
        look = asyncio.get_running_loop().create_task(self._look(queue_name), name="holdfast-unregistered")
        self._looks.add(look)
        look.add_done_callback(self._looks.discard)

    async def _look(self, queue_name: str) -> None:
        with suppress(HoldfastError):  # this is a hint; whoever enqueues learns by the write itself what is wrong
            if await self._engine.desk.queues.get(queue_name) is None:
                logger.warning(
                    "The queue %s is not registered: what is put in it waits until it is, by register_queue(%r).",
                    queue_name,
                    queue_name,
                )


__all__ = ["Unregistered"]
