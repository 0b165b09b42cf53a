"""All messages and events of a run, for whoever looks at it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.workflows.messaging.message import NotificationInfo, shown

if TYPE_CHECKING:
    from holdfast.db.manager import ConnectionManager
    from holdfast.db.queries.queries import Queries
    from holdfast.workflows.payloads import Payloads


class MessageStore:
    """Reads the messages and events of one database."""

    def __init__(self, manager: ConnectionManager, queries: Queries, payloads: Payloads) -> None:
        self._manager = manager
        self._queries = queries
        self._shown = payloads.shown

    async def events(self, workflow_id: str) -> dict[str, Any]:
        """Return the events of a run by their keys, as plain JSON values; one that cannot be opened hides no other."""
        rows = await self._manager.fetch(self._queries["events_of"], workflow_id=workflow_id)
        return {row["key"]: self._shown(row["value"], row["serialization"]) for row in rows}

    async def messages(self, workflow_id: str) -> list[NotificationInfo]:
        """Return the messages to a run in the order in which they were sent, received or not."""
        rows = await self._manager.fetch(self._queries["messages_of"], workflow_id=workflow_id)
        return [
            NotificationInfo(
                topic=shown(row["topic"]),
                message=self._shown(row["message"], row["serialization"]),
                created_at_epoch_ms=row["created_at_epoch_ms"],
                consumed=bool(row["consumed"]),
            )
            for row in rows
        ]
