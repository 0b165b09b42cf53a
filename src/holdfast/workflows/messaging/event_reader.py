"""Reading an event of a run, and waiting until it is set; from outside of workflows, and for those who record it."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from holdfast.errors import DatabaseError, Retryable, Unavailable
from holdfast.workflows.messaging.message import check_name
from holdfast.workflows.parking import Awaited

if TYPE_CHECKING:
    from holdfast.db.manager import ConnectionManager
    from holdfast.db.queries.queries import Queries
    from holdfast.db.session import Row
    from holdfast.model.world import World
    from holdfast.workflows.messaging.bells import Bells
    from holdfast.workflows.payloads import Codec

_LOOK_AGAIN = 0.5  # seconds, where the database is away


def event_of(workflow_id: str, key: str) -> Awaited:
    """Return what is awaited by one who waits for an event."""
    return Awaited("event", workflow_id, key)


class EventReader:
    """Reads the events of one database."""

    def __init__(self, manager: ConnectionManager, queries: Queries, bells: Bells, world: World) -> None:
        self._manager = manager
        self._get = queries["event_get"]
        self._bells = bells
        self._world = world

    async def value(self, workflow_id: str, key: str, patience: float | None, codec: Codec) -> Any:
        """Return the value of an event once it is set, or None if it is not within *patience* seconds."""
        check_name(workflow_id, "A workflow_id")
        check_name(key, "The key of an event")
        found = await self._wait(workflow_id, key, patience)
        return None if found is None else codec.load(found["value"], found["serialization"])

    async def look(self, workflow_id: str, key: str) -> Row | None:
        """Return value and serialization of an event as it is now; None if it is not set."""
        return await self._manager.fetchone(self._get, workflow_id=workflow_id, event=key)

    async def _wait(self, workflow_id: str, key: str, patience: float | None) -> Row | None:
        self._manager.backend()  # refuses another loop, where the bells must begin no task: nobody could close it
        end = inf if patience is None else self._world.monotonic() + patience
        with self._bells.watch(event_of(workflow_id, key)) as bell:
            while True:
                away: DatabaseError | None = None
                try:
                    found = await self.look(workflow_id, key)
                except (Retryable, Unavailable) as error:
                    found, away = None, error
                left = end - self._world.monotonic()
                if found is not None or left <= 0:
                    break
                await bell.wait(min(left, _LOOK_AGAIN) if away else None if left == inf else left)
        if away is not None:
            raise away
        return found
