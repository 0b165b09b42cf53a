"""Looking at queues and changing them from outside: the methods that applications and clients have alike.

A part of ``management.py``, and made in the same way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from holdfast.workflows.management.asking import Asking, AsyncAsking
from holdfast.workflows.queues import requests

if TYPE_CHECKING:
    from holdfast.core.options import OnConflict
    from holdfast.model.queue import Queue
    from holdfast.workflows.queues import QueueSettings


class AsyncQueueManagement(AsyncAsking):
    """What can be asked about queues and done to them; awaited."""

    async def register_queue(
        self,
        name: str,
        *,
        on_conflict: OnConflict = "update",
        in_memory: bool = False,
        **settings: Unpack[QueueSettings],
    ) -> Queue:
        """Make a queue, or set the one that is there; ``on_conflict="keep"`` leaves it, ``"reject"`` raises.

        What is not given has its default. It counts in every process from its next look for work on, without a restart.
        """
        return await self._manage(requests.register_queue(name, settings, on_conflict, in_memory=in_memory))

    async def retrieve_queue(self, name: str) -> Queue | None:
        """Return a queue as it is set now; None if there is none of this name."""
        return await self._manage(requests.retrieve_queue(name))

    async def list_queues(self) -> list[Queue]:
        """Return all queues, by name."""
        return await self._manage(requests.list_queues())

    async def update_queue(self, name: str, **changes: Unpack[QueueSettings]) -> Queue:
        """Change some settings of a queue, all of them or none, and return it; ``QueueNotFound`` if there is none."""
        return await self._manage(requests.update_queue(name, changes))

    async def pause_queue(self, name: str) -> None:
        """Have nothing more claimed from a queue; what runs goes on. ``QueueNotFound`` if there is none."""
        await self._manage(requests.pause_queue("pause_queue", name, paused=True))

    async def resume_queue(self, name: str) -> None:
        """Have a paused queue claimed from again; ``QueueNotFound`` if there is none."""
        await self._manage(requests.pause_queue("resume_queue", name, paused=False))

    async def delete_queue(self, name: str, *, force: bool = False) -> None:
        """Delete a queue; ``QueueNotFound`` if there is none, ``QueueConflict`` while runs in it have not ended.

        With *force* it is deleted all the same: such runs wait until a queue of this name is registered again.
        """
        await self._manage(requests.delete_queue(name, force=force))


class QueueManagement(Asking):
    """What can be asked about queues and done to them; blocking."""

    def register_queue(
        self,
        name: str,
        *,
        on_conflict: OnConflict = "update",
        in_memory: bool = False,
        **settings: Unpack[QueueSettings],
    ) -> Queue:
        """Make a queue, or set the one that is there; ``on_conflict="keep"`` leaves it, ``"reject"`` raises.

        What is not given has its default. It counts in every process from its next look for work on, without a restart.
        """
        return self._manage(requests.register_queue(name, settings, on_conflict, in_memory=in_memory))

    def retrieve_queue(self, name: str) -> Queue | None:
        """Return a queue as it is set now; None if there is none of this name."""
        return self._manage(requests.retrieve_queue(name))

    def list_queues(self) -> list[Queue]:
        """Return all queues, by name."""
        return self._manage(requests.list_queues())

    def update_queue(self, name: str, **changes: Unpack[QueueSettings]) -> Queue:
        """Change some settings of a queue, all of them or none, and return it; ``QueueNotFound`` if there is none."""
        return self._manage(requests.update_queue(name, changes))

    def pause_queue(self, name: str) -> None:
        """Have nothing more claimed from a queue; what runs goes on. ``QueueNotFound`` if there is none."""
        self._manage(requests.pause_queue("pause_queue", name, paused=True))

    def resume_queue(self, name: str) -> None:
        """Have a paused queue claimed from again; ``QueueNotFound`` if there is none."""
        self._manage(requests.pause_queue("resume_queue", name, paused=False))

    def delete_queue(self, name: str, *, force: bool = False) -> None:
        """Delete a queue; ``QueueNotFound`` if there is none, ``QueueConflict`` while runs in it have not ended.

        With *force* it is deleted all the same: such runs wait until a queue of this name is registered again.
        """
        self._manage(requests.delete_queue(name, force=force))
