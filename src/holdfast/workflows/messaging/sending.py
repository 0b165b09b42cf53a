"""The fact that messages are sent: by a workflow or a step beside its record, or by anybody alone.

Messages to one run are numbered in the order in which they are handed over. Whoever sends holds the counters of its
destinations until commit, in the order of their ids: a later number never commits first, and two senders of many
messages do not wait for each other in a circle.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from holdfast import faults
from holdfast.errors import DatabaseError, MessageConflict, QueryFailed, Retryable, WorkflowNotFound
from holdfast.workflows.messaging.message import MessageRow
from holdfast.workflows.parts import parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from holdfast.db.pipeline.operation import Values
    from holdfast.db.queries.queries import Queries
    from holdfast.db.session import Transaction

    Arrived = Callable[[Sequence[MessageRow]], None]


class PutMessages:
    """Writes messages within a transaction, in the order in which they are given."""

    def __init__(self, queries: Queries) -> None:
        self._take = queries["counters_take"]
        self._put = queries["messages_put"]
        self._look = queries["messages_look"]

    async def numbers(self, transaction: Transaction, messages: Sequence[MessageRow]) -> dict[str, int]:
        """Take a number for each message; return the one before the first, by destination that is there."""
        wanted = Counter(each.destination for each in messages)
        try:
            found = await transaction.fetch_batch(self._take, sorted(wanted.items()))
        except QueryFailed as error:
            if not _names_counter(error):
                raise
            raise Retryable("A run was deleted while the first message to it was on its way.") from error
        return {row["workflow_uuid"]: row["last_sequence"] - wanted[row["workflow_uuid"]] for row in found}

    async def put(self, transaction: Transaction, messages: Sequence[MessageRow], numbers: dict[str, int]) -> None:
        """Write *messages* with the next *numbers*. One whose id was sent before to the same run is left out.

        ``MessageConflict`` if the id belongs to a message to another run.
        """
        rows: dict[str, Values] = {}
        for each in messages:
            numbers[each.destination] += 1
            rows.setdefault(each.message_uuid, (*each, numbers[each.destination]))
        written = 0
        for part in parts(list(rows.values())):
            written += await transaction.execute_batch(self._put, part)
        if written < len(messages):
            await self._compare(transaction, messages)

    async def destinations(self, transaction: Transaction, ids: Iterable[str]) -> dict[str, str]:
        """Return to whom messages were sent, by their ids."""
        rows = await transaction.fetch_batch(self._look, [(each,) for each in dict.fromkeys(ids)])
        return {row["message_uuid"]: row["destination_uuid"] for row in rows}

    async def _compare(self, transaction: Transaction, messages: Sequence[MessageRow]) -> None:
        found = await self.destinations(transaction, (each.message_uuid for each in messages))
        for each in messages:
            there = found.get(each.message_uuid, each.destination)
            if there != each.destination:
                raise MessageConflict(
                    f"The idempotency_key {each.message_uuid!r} belongs to a message to the run {there}, so none was "
                    f"sent to {each.destination}: give messages to different runs different keys."
                )


class SendBesides:
    """Messages of workflows and steps, beside their records. Rows are ``MessageRow``; see ``voice.SideKind``."""

    def __init__(self, put: PutMessages, arrived: Arrived) -> None:
        self._put = put
        self._arrived = arrived

    async def write(self, transaction: Transaction, rows: Sequence[Values]) -> None:
        """Write the messages; ``WorkflowNotFound`` or ``MessageConflict`` refuses them all."""
        messages = _messages(rows)
        numbers = await self._put.numbers(transaction, messages)
        refuse_missing(messages, numbers)
        await self._put.put(transaction, messages, numbers)

    def written(self, rows: Sequence[Values]) -> None:
        """Tell those who wait for them."""
        faults.point("message.sent")
        self._arrived(_messages(rows))


class SendAlone:
    """Messages that no workflow sends, as a kind of the pipeline. A row is messages that are sent together."""

    name = "message sent"
    one_statement = False

    def __init__(self, put: PutMessages) -> None:
        self._put = put

    async def apply(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[Any]:
        """Write the messages of each row unless one of its destinations is missing: then that is its outcome."""
        groups = [_messages(row) for row in rows]
        numbers = await self._put.numbers(transaction, [each for group in groups for each in group])
        outcomes: list[Any] = [_refusal(group, numbers) or True for group in groups]
        sent = [each for group, outcome in zip(groups, outcomes, strict=True) if outcome is True for each in group]
        await self._put.put(transaction, sent, numbers)
        return outcomes

    async def recall(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[Any]:
        """Tell by the ids: those of a row came with one commit, or are there from an earlier one."""
        groups = [_messages(row) for row in rows]
        found = await self._put.destinations(transaction, (each.message_uuid for group in groups for each in group))
        return [
            True if all(found.get(each.message_uuid) == each.destination for each in group) else None
            for group in groups
        ]


def refuse_missing(messages: Sequence[MessageRow], numbers: dict[str, int]) -> None:
    """Raise ``WorkflowNotFound`` if one of the destinations got no number: it is not there."""
    refusal = _refusal(messages, numbers)
    if refusal is not None:
        raise refusal


def _messages(rows: Sequence[Values]) -> list[MessageRow]:
    return [MessageRow(*row) for row in rows]


def _refusal(messages: Sequence[MessageRow], numbers: dict[str, int]) -> Exception | None:
    missing = [each.destination for each in messages if each.destination not in numbers]
    if not missing:
        return None
    return WorkflowNotFound(
        f"There is no run {missing[0]!r} to send a message to; it was never started, or was deleted. Nothing was sent."
    )


def _names_counter(error: DatabaseError) -> bool:
    """Whether a counter's foreign key refused it. SQLite does not say which key; with one writer it never happens."""
    return "fk_message_counters_run" in str(error)
