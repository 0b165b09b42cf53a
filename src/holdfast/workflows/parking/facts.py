"""The fact that a run is put away, as a kind of the commit pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.model.workflow import INTERNAL_QUEUE
from holdfast.workflows.facts import EndRuns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.db.pipeline.operation import Values
    from holdfast.db.queries.queries import Queries
    from holdfast.db.session import Row, Transaction
    from holdfast.workflows.parking.waits import Wait


class PutAwayRuns(EndRuns):
    """PENDING -> DELAYED by its holder, until a moment or until something happens.

    Rows are those of the query ``run_put_away`` and, as a fifth value, the wait itself.
    """

    def __init__(self, queries: Queries, parking: Queries) -> None:
        constants = {"internal_queue": INTERNAL_QUEUE}
        super().__init__("put away", parking["run_put_away"], queries, constants)
        self._forget = parking["waits_forget"]
        self._note = parking["waits_note"]
        self.one_statement = False

    async def apply(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[Any]:
        plain = [row[:4] for row in rows]
        outcomes = await super().apply(transaction, plain)
        await transaction.execute_batch(self._forget, plain)
        waits = [(row[0], row[1], *each) for row in rows for each in _noted(row[4])]
        if waits:
            await transaction.execute_batch(self._note, waits)
        return outcomes

    def _is_mine(self, found: Row | None, row: Values) -> bool:
        return found is not None and found["change_key"] == row[1]


def _noted(wait: Wait) -> list[tuple[str, str, str | None, str | None]]:
    """Return kind and key of everything that ends a wait; of a message or an event also its run and its name."""
    results = [("result", each, None, None) for each in wait.results]
    return results + [(each.kind, each.digest(), each.workflow_id, each.key) for each in wait.things]
