"""The fact that events are set, beside the record of the workflow's operation or of the step that sets them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from holdfast import faults

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.db.operation import Values
    from holdfast.db.queries import Queries
    from holdfast.db.session import Transaction


class EventRow(NamedTuple):
    """An event as it is stored, and the position of the operation that sets it."""

    workflow_id: str
    key: str
    text: str
    serialization: str
    position: int


class SetEvents:
    """Rows are ``EventRow``; see ``voice.SideKind``. What an operation sets last under a key is what it has set."""

    def __init__(self, queries: Queries, happened: Callable[[Sequence[EventRow]], None]) -> None:
        self._set = queries["events_set"]
        self._note = queries["events_note"]
        self._happened = happened

    async def write(self, transaction: Transaction, rows: Sequence[Values]) -> None:
        """Write values and history; no statement may write a row twice, so the last of several counts."""
        events = [EventRow(*row) for row in rows]
        current = {(each.workflow_id, each.key): each for each in events}
        history = {(each.workflow_id, each.key, each.position): each for each in events}
        await transaction.execute_batch(self._set, [current[each][:4] for each in sorted(current)])
        await transaction.execute_batch(self._note, [tuple(history[each]) for each in sorted(history)])

    def written(self, rows: Sequence[Values]) -> None:
        """Tell who waits for them."""
        faults.point("event.set")
        self._happened([EventRow(*row) for row in rows])
