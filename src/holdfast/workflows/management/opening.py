"""Opening the desk of a database: the same rooms for an application and for a client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.workflows.control import Control, control_queries
from holdfast.workflows.dispatch_state import DispatchStates, dispatch_state_queries
from holdfast.workflows.looking import Looking, Transfer, looking_queries
from holdfast.workflows.management.desk import Desk
from holdfast.workflows.messaging import messaging_queries
from holdfast.workflows.messaging.store import MessageStore
from holdfast.workflows.queues import QueueStore, queue_queries
from holdfast.workflows.retention import Pruner, retention_queries
from holdfast.workflows.schedules import Schedules, schedule_queries
from holdfast.workflows.streams import StreamStore, stream_queries

if TYPE_CHECKING:
    from holdfast.db.manager import ConnectionManager
    from holdfast.model.world import World
    from holdfast.workflows.application.versions import Versions
    from holdfast.workflows.facts import EnqueueRuns
    from holdfast.workflows.payloads import Payloads


def open_desk(
    manager: ConnectionManager,
    schema: str,
    payloads: Payloads,
    versions: Versions,
    world: World,
    clock_offset_ms: str | None,
    enqueue: EnqueueRuns,
) -> Desk:
    """Return the desk of *manager*'s database, whose tables lie in *schema*; *enqueue* puts runs in queues there."""
    place = manager.dialect, schema
    looking = looking_queries(*place, clock_offset_ms=clock_offset_ms)
    queues = QueueStore(manager, queue_queries(*place, clock_offset_ms=clock_offset_ms), world)
    return Desk(
        Control(manager, control_queries(*place, clock_offset_ms=clock_offset_ms), world),
        Looking(manager, looking, payloads),
        Transfer(manager, looking, world),
        Pruner(manager, retention_queries(*place, clock_offset_ms=clock_offset_ms), world),
        versions,
        queues,
        Schedules(queues, schedule_queries(*place, clock_offset_ms=clock_offset_ms), payloads, world, enqueue),
        StreamStore(manager, stream_queries(*place, clock_offset_ms=clock_offset_ms), payloads),
        DispatchStates(manager, dispatch_state_queries(*place, clock_offset_ms=clock_offset_ms), world),
        MessageStore(manager, messaging_queries(*place, clock_offset_ms=clock_offset_ms), payloads),
    )
