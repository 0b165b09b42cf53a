"""The durable facts of executions, as kinds of the commit pipeline: started, ended.

The result of a row is None. One that is left out fails alone, with the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.db.pipeline.operation import Counted
from holdfast.db.url import DialectName
from holdfast.errors import Conflict, Retryable
from holdfast.stores.executions.store import ExecutionStatus, not_pending, taken

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.db.pipeline.operation import Values
    from holdfast.db.queries.queries import Queries, Query
    from holdfast.db.session import Row, Transaction


_END = ("run_id", "outcome", "outcome_result", "outcome_error", "end_key")


class _Executions:
    """What starts and ends have in common: write all, and look up the fate of each if some were left out."""

    def __init__(self, name: str, write: Query, look: Query, mark: str) -> None:
        self.name = name
        self._write = write
        self._look = look
        self._mark = mark  # the column with the key of such a write, which is the last value of a row
        self.one_statement = len(write.statements) == 1

    async def apply(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[Any]:
        first = {row[0]: row for row in reversed(rows)}  # of several who write to one run the first is tried
        try:
            if await self._written(transaction, [row for row in rows if first[row[0]] is row]) == len(rows):
                return [True] * len(rows)
        except Conflict as error:
            if len(rows) > 1:
                raise
            # MariaDB/MySQL: the run id came in between the look and the insert. The next look sees whose it is.
            raise Retryable(str(error)) from error
        return await self._told(transaction, rows)

    async def _told(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[Any]:
        """Look up what became of each, after some were left out."""
        found = await self._found(transaction, rows)
        return [self._is_mine(found.get(row[0]), row) or self._refusal(found.get(row[0]), row) for row in rows]

    async def recall(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[Any]:
        found = await self._found(transaction, rows)
        return [self._is_mine(found.get(row[0]), row) or None for row in rows]

    async def _written(self, transaction: Transaction, rows: Sequence[Values]) -> int:
        return await transaction.execute_batch(self._write, rows)

    def _is_mine(self, found: Row | None, row: Values) -> bool:
        return found is not None and found[self._mark] == row[-1]

    def _refusal(self, found: Row | None, row: Values) -> Exception:
        raise NotImplementedError

    async def _found(self, transaction: Transaction, rows: Sequence[Values]) -> dict[str, Row]:
        ids = [(each,) for each in dict.fromkeys(row[0] for row in rows)]
        return {row["run_id"]: row for row in await transaction.fetch_batch(self._look, ids)}


class StartExecutions(_Executions, Counted):
    """none -> pending. Rows as in the query ``executions_start``.

    To look for each first took PostgreSQL a third longer. So several are written plainly; if one is there already, none
    is written, and they are asked for.
    """

    def __init__(self, queries: Queries) -> None:
        with_care = queries["executions_start"]
        _Executions.__init__(self, "execution started", with_care, queries["executions_look"], "start_key")
        at_once = queries["executions_start_new"] if queries.dialect is DialectName.POSTGRES else None
        Counted.__init__(self, with_care, {}, at_once)

    async def judge(self, transaction: Transaction, rows: Sequence[Values], touched: int) -> Sequence[Any]:
        return [True] * len(rows) if touched == len(rows) else await self._told(transaction, rows)

    def _refusal(self, found: Row | None, row: Values) -> Exception:
        return taken(row[0], ExecutionStatus.PENDING if found is None else found["status"])


class EndExecutions(_Executions):
    """pending -> completed or failed. Rows as in the query ``executions_end``."""

    def __init__(self, queries: Queries) -> None:
        super().__init__("execution ended", queries["executions_end"], queries["executions_look"], "end_key")
        self._write_one = queries["execution_end"]

    async def _written(self, transaction: Transaction, rows: Sequence[Values]) -> int:
        if len(rows) > 1:
            return await super()._written(transaction, rows)
        return await transaction.execute(self._write_one, **dict(zip(_END, rows[0], strict=True)))

    def _refusal(self, found: Row | None, row: Values) -> Exception:
        return not_pending(row[0], None if found is None else found["status"], ExecutionStatus(row[1]))
