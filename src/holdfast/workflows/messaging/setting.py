"""The fact that events are set, beside the record of the workflow's operation or of the step that sets them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from holdfast import faults

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.db.pipeline.operation import Values
    from holdfast.db.queries.queries import Queries
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
        said = _each_once([EventRow(*row) for row in rows])
        current = [(*each[-1][:4], len(each)) for each in said]
        history = [(*event, len(each) - place) for each in said for place, event in enumerate(each, 1)]
        await transaction.execute_batch(self._set, sorted(current))
        await transaction.execute_batch(self._note, sorted(history))

    def written(self, rows: Sequence[Values]) -> None:
        """Tell those who wait for them."""
        faults.point("event.set")
        self._happened([EventRow(*row) for row in rows])


def _each_once(events: Sequence[EventRow]) -> list[list[EventRow]]:
    """Return of each run and key what operations have set, in order; of one operation what it has set last."""
    said: dict[tuple[str, str], dict[int, EventRow]] = {}
    for event in events:
        of_key = said.setdefault((event.workflow_id, event.key), {})
        of_key.pop(event.position, None)
        of_key[event.position] = event
    return [list(each.values()) for each in said.values()]
