"""What is asked about queues and done to them, as requests to the desk; see ``desk.py``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.texts import check_text
from holdfast.model.queue import Queue
from holdfast.workflows.management.desk import Change, Request

if TYPE_CHECKING:
    from holdfast.core.options import OnConflict
    from holdfast.workflows.management.desk import Desk
    from holdfast.workflows.queues.settings import QueueSettings


def register_queue(name: str, settings: QueueSettings, on_conflict: OnConflict, *, in_memory: bool) -> Request[Queue]:
    """Ask for a queue."""

    async def call(desk: Desk) -> Queue:
        return await desk.queues.register(name, settings, on_conflict)

    async def call_in_memory(desk: Desk) -> Queue:
        return desk.queues.register_in_memory(name, settings)

    arguments = {"name": name, "settings": settings, "on_conflict": on_conflict, "in_memory": in_memory}
    return Request("register_queue", call_in_memory if in_memory else Change(call), arguments, Queue)


def retrieve_queue(name: str) -> Request[Queue | None]:
    """Ask how a queue is set."""
    check_text("The name of a queue", name)

    async def call(desk: Desk) -> Queue | None:
        return await desk.queues.get(name)

    return Request("retrieve_queue", call, {"name": name}, Queue | None)


def list_queues() -> Request[list[Queue]]:
    """Ask which queues there are."""

    async def call(desk: Desk) -> list[Queue]:
        return await desk.queues.all()

    return Request("list_queues", call, {}, list[Queue])


def update_queue(name: str, changes: QueueSettings) -> Request[Queue]:
    """Ask for a queue to be set differently."""
    check_text("The name of a queue", name)

    async def call(desk: Desk) -> Queue:
        return await desk.queues.update(name, changes)

    return Request("update_queue", Change(call), {"name": name, "changes": changes}, Queue)


def pause_queue(method: str, name: str, *, paused: bool) -> Request[None]:
    """Ask for a queue to stand still, or to go on."""
    check_text("The name of a queue", name)

    async def call(desk: Desk) -> None:
        await desk.queues.update(name, {"paused": paused})

    return Request(method, Change(call), {"name": name}, None)


def delete_queue(name: str, *, force: bool) -> Request[None]:
    """Ask for a queue to be deleted."""
    check_text("The name of a queue", name)

    async def call(desk: Desk) -> None:
        await desk.queues.delete(name, force=force)

    return Request("delete_queue", Change(call), {"name": name, "force": force}, None)
