"""Taking a run from one database to another: exported as a document, imported in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from holdfast.db.in_doubt import made_sure
from holdfast.errors import ConfigurationError, UnknownCommit, WorkflowConflict
from holdfast.workflows.looking.document import (
    FORMAT,
    FORMAT_VERSION,
    Document,
    EventDocument,
    MessageDocument,
    RunDocument,
    StepDocument,
    StreamEntryDocument,
    event_row,
    message_row,
    run_row,
    step_row,
    stream_row,
)
from holdfast.workflows.looking.looking import not_found
from holdfast.workflows.messaging.going_back import GoingBack
from holdfast.workflows.running.ids import check_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.db.joined import Verbs
    from holdfast.db.queries.queries import Queries
    from holdfast.db.session import Row, Transaction
    from holdfast.model.world import World

OnConflict = Literal["reject", "return_existing"]
_AT_ONCE = 500


class Transfer:
    """Exports and imports runs of one database."""

    def __init__(self, verbs: Verbs, queries: Queries, world: World) -> None:
        self._verbs = verbs
        self._queries = queries
        self._world = world

    def within(self, verbs: Verbs) -> Transfer:
        """Return the same, with all that is read and written through *verbs*."""
        return Transfer(verbs, self._queries, self._world)

    async def export(self, workflow_id: str) -> dict[str, Any]:
        """Return a run and its operations as one moment saw them, as plain JSON. Raises ``WorkflowNotFound``.

        Payloads are in it as they are stored: whoever imports it needs the same keys.
        """
        parts = ("steps_export", "children_export", "streams_export", "messages_export", "events_export")

        async def read(transaction: Transaction) -> tuple[Row | None, list[list[Row]]]:
            row = await transaction.fetchone(self._queries["run_export"], workflow_id=workflow_id)
            return row, [await transaction.fetch(self._queries[part], workflow_id=workflow_id) for part in parts]

        row, (steps, children, streams, messages, events) = await self._verbs.run(read, isolation="REPEATABLE READ")
        if row is None:
            raise not_found(workflow_id)
        return Document(
            format=FORMAT,
            format_version=FORMAT_VERSION,
            workflow=RunDocument(**(row | {each: bool(row[each]) for each in ("was_forked_from", "is_debounced")})),
            steps=[StepDocument(**step) for step in steps],
            children=[child["workflow_uuid"] for child in children],
            streams=[_entry(row) for row in streams],
            messages=[MessageDocument(**(each | {"consumed": bool(each["consumed"])})) for each in messages],
            events=[EventDocument(**each) for each in events],
        ).as_json()

    async def import_(
        self, document: Mapping[str, Any], *, workflow_id: str | None = None, on_conflict: OnConflict = "reject"
    ) -> str:
        """Write the run of a document and its operations, all or nothing; return its id, which may be a new one.

        A run that had ended stays as it was. One that had not is ENQUEUED for any executor that has its function
        and a fitting version, and goes on from its record. If the id is taken, ``WorkflowConflict`` is raised, or
        with ``on_conflict="return_existing"`` nothing is written. Raises ``ConfigurationError`` for a document that
        does not fit, before anything is written.
        """
        if on_conflict not in ("reject", "return_existing"):
            raise ConfigurationError(f'on_conflict is "reject" or "return_existing", not {on_conflict!r}.')
        named = None if workflow_id is None else check_id(workflow_id)
        read = Document.read(document)
        chosen = named or read.workflow.workflow_uuid
        there = await self._written(read, chosen)
        if there is not None and on_conflict == "reject":
            raise WorkflowConflict(
                f"The id {chosen!r} belongs to a run that is here already ({there}). Import it under another "
                'workflow_id, or pass on_conflict="return_existing" to leave that run as it is.'
            )
        return chosen

    async def _written(self, document: Document, workflow_id: str) -> str | None:
        """Write the document; return None, or the status of the run that has its id. Asks after an unknown commit."""
        key = self._world.new_id()

        async def work(transaction: Transaction) -> str | None:
            return await self._write(transaction, document, workflow_id, key)

        try:
            return await self._verbs.run(work)
        except UnknownCommit as error:
            return await made_sure(lambda: self._verbs.run(work), error, self._world)

    async def _write(self, transaction: Transaction, document: Document, workflow_id: str, key: str) -> str | None:
        # After an unknown commit the run may be here, whole, under this very key.
        there = await transaction.fetchone(self._queries["run_imported"], workflow_id=workflow_id)
        if there is not None:
            return None if there["creation_key"] == key else str(there["status"])
        await transaction.execute_batch(self._queries["run_import"], [run_row(document.workflow, workflow_id, key)])
        there = await transaction.fetchone(self._queries["run_imported"], workflow_id=workflow_id)
        if there is None or there["creation_key"] != key:
            return "written at the same moment" if there is None else str(there["status"])
        renamed = workflow_id != document.workflow.workflow_uuid
        steps = [step_row(workflow_id, step, renamed=renamed) for step in document.steps]
        for begin in range(0, len(steps), _AT_ONCE):
            await transaction.execute_batch(self._queries["steps_import"], steps[begin : begin + _AT_ONCE])
        entries = [stream_row(workflow_id, entry) for entry in document.streams]
        for begin in range(0, len(entries), _AT_ONCE):
            await transaction.execute_batch(self._queries["streams_import"], entries[begin : begin + _AT_ONCE])
        await self._write_messages(transaction, document, workflow_id)
        return None

    async def _write_messages(self, transaction: Transaction, document: Document, workflow_id: str) -> None:
        """Write the messages to the run, and its events: each has the value that was set last."""
        renamed = workflow_id != document.workflow.workflow_uuid
        messages = [message_row(workflow_id, each, renamed=renamed) for each in document.messages]
        if messages:
            last = max(each.sequence for each in document.messages)
            await transaction.execute(self._queries["counter_import"], workflow_id=workflow_id, last_sequence=last)
        for begin in range(0, len(messages), _AT_ONCE):
            await transaction.execute_batch(self._queries["messages_import"], messages[begin : begin + _AT_ONCE])
        events = [event_row(workflow_id, place, each) for place, each in enumerate(document.events, 1)]
        for begin in range(0, len(events), _AT_ONCE):
            await transaction.execute_batch(self._queries["events_import"], events[begin : begin + _AT_ONCE])
        if events:
            await GoingBack(self._queries).restore(transaction, [workflow_id])


def _entry(row: Row) -> StreamEntryDocument:
    return StreamEntryDocument(
        key=row["stream"],
        offset=row["place"],
        value=row["value"],
        serialization=row["serialization"],
        function_id=row["function_id"],
    )


__all__ = ["OnConflict", "Transfer"]
