"""Messages and events for a process without an engine: it sends, and waits for events."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from holdfast import faults
from holdfast.db.in_doubt import made_sure
from holdfast.errors import DatabaseError, UnknownCommit
from holdfast.workflows.messaging.bells import Bells
from holdfast.workflows.messaging.event_reader import EventReader
from holdfast.workflows.messaging.message import MessageRow
from holdfast.workflows.messaging.sending import PutMessages, refuse_missing
from holdfast.workflows.messaging.telling import message_to
from holdfast.workflows.parking import Wakes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.db.manager import ConnectionManager
    from holdfast.db.queries.queries import Queries
    from holdfast.db.session import Transaction
    from holdfast.model.world import World
    from holdfast.workflows.messaging.message import Message
    from holdfast.workflows.payloads import Codec, Payloads

logger = logging.getLogger("holdfast.workflows")


class Outside:
    """The messages and events of one database, seen from outside; *hears* as for ``Bells``."""

    def __init__(
        self,
        manager: ConnectionManager,
        queries: Queries,
        parking: Queries,
        payloads: Payloads,
        world: World,
        hears: Callable[[], bool],
    ) -> None:
        self._manager = manager
        self._payloads = payloads
        self._world = world
        self._put = PutMessages(queries)
        self._wakes = Wakes(manager, parking, lambda: None)
        self.bells = Bells(manager, parking, world, hears)
        self._events = EventReader(manager, queries, self.bells, world)

    async def send(self, messages: Sequence[Message]) -> None:
        """Send messages in one transaction. After a lost reply it is done again: their ids keep them from being two."""
        rows = [MessageRow.of(self._payloads, each, self._world.new_id) for each in messages]

        async def work(transaction: Transaction) -> None:
            numbers = await self._put.numbers(transaction, rows)
            refuse_missing(rows, numbers)
            await self._put.put(transaction, rows, numbers)

        try:
            await self._manager.run(work)
        except UnknownCommit as error:
            await made_sure(lambda: self._manager.run(work), error, self._world)
        faults.point("message.sent")
        await self._wake(rows)

    async def _wake(self, rows: Sequence[MessageRow]) -> None:
        """Wake the runs that were put away for these messages: the polls of others look at some waits at a time."""
        things = [message_to(row.destination, row.topic) for row in rows]
        try:
            await self._wakes.tell((each.kind, each.digest()) for each in things)
        except DatabaseError as error:  # they are sent; whoever polls finds who waits for them
            logger.warning("Waking runs for which messages were sent is left to the next polls: %s", error)

    async def get_event(self, workflow_id: str, key: str, limit: float | None, codec: Codec) -> Any:
        """Return an event of a run once it is set, or None if it is not within *limit* seconds."""
        return await self._events.value(workflow_id, key, limit, codec)
