"""Runs of a schedule in a chain: each begins when all before it have ended, so that no two run at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.model.workflow import WorkflowStatus
from holdfast.workflows.enqueueing.rows import KEY

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from holdfast.db.queries.queries import Queries
    from holdfast.db.session import Transaction
    from holdfast.workflows.enqueueing.rows import Entry

_STATUS, _UNTIL = 1, -1  # in a row of run_enqueue


class Chain:
    """New runs of one schedule, the first of them behind the run *last* if there is one. The caller writes them.

    A run that is to be written may be there, fired by hand or by the calendar: only those that are made are links.
    """

    def __init__(self, entries: Sequence[Entry], last: str | None) -> None:
        self._last = last
        self.entries = [each if last is None and not place else _behind(each) for place, each in enumerate(entries)]

    def links(self, made: Collection[str]) -> list[tuple[str, str, str]]:
        """Return id, creation key and who is before it of each run that was *made* and waits."""
        found: list[tuple[str, str, str]] = []
        before, last_made = self._last, self._last
        for each in self.entries:
            run_id = str(each.row[0])
            if run_id in made:
                if before is not None:
                    found.append((run_id, each.row[KEY], last_made or before))
                last_made = run_id
            before = run_id
        return found


async def runs_left(transaction: Transaction, queries: Queries, ids: Iterable[str]) -> set[str]:
    """Return those of these runs for which a later one waits: it has not ended, or one before it has not."""
    found = await transaction.fetch_batch(queries["runs_left"], [(each,) for each in ids])
    return {row["workflow_uuid"] for row in found}


async def link(transaction: Transaction, queries: Queries, links: Sequence[tuple[str, str, str]]) -> None:
    """Have runs that this transaction has made wait for those before them."""
    if links:
        await transaction.execute_batch(queries["runs_link"], links)
        await transaction.execute_batch(queries["runs_note_links"], links)


def _behind(wanted: Entry) -> Entry:
    """Return a run that waits for others to end, and for no moment."""
    row = list(wanted.row)
    row[_STATUS], row[_UNTIL] = WorkflowStatus.DELAYED.value, None
    return wanted._replace(row=tuple(row))


__all__ = ["Chain", "link", "runs_left"]
