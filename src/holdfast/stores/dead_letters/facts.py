"""The durable facts of dead letters, as kinds of the commit pipeline: one was made, one was changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.errors import Conflict, Retryable
from holdfast.stores.dead_letters.rows import Changes, moment, portions, record
from holdfast.stores.dead_letters.shelf import Gone

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.db.pipeline.operation import Values
    from holdfast.db.queries.queries import Queries
    from holdfast.db.session import Transaction
    from holdfast.model.dead_letter import FailedOperationData

_ID = 0


class AddLetters:
    """none -> pending. Rows as in the query ``dlq_add``, each of a new id; the result is ``created_at``, as text."""

    name = "dead letter made"

    def __init__(self, queries: Queries) -> None:
        self._add = queries["dlq_add"]
        self._look = queries["dlq_added"]
        self.one_statement = len(self._add.statements) == 1

    async def apply(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[str | Exception]:
        try:
            added = await transaction.fetch_batch(self._add, rows)
        except Conflict as error:
            if len(rows) > 1:
                raise
            # An earlier try, of which no reply came, has landed just now: the next one finds it.
            raise Retryable(str(error)) from error
        made = {row["id"]: row["created_at"] for row in added}
        return [made[row[_ID]] for row in rows]

    async def recall(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[str | None]:
        # The id was made for this letter alone; what it was changed by since has left another key.
        ids = [(row[_ID],) for row in rows]
        made = {row["id"]: row["created_at"] for row in await transaction.fetch_batch(self._look, ids)}
        return [made.get(row[_ID]) for row in rows]


class ChangeLetters:
    """Whatever is decided about a record. Rows are (id, decision, key).

    The result is what was written, or deleted; False if there is no such record or it was left as it is. The records
    are locked while it is decided, so that the version that is read is the one that is written over.
    """

    name = "dead letter changed"
    one_statement = False

    def __init__(self, queries: Queries) -> None:
        self._read = queries["dlq_read"]
        self._look = queries["dlq_look"]
        self._write = Writing(queries)

    async def apply(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[Any]:
        ids = [(each,) for each in dict.fromkeys(row[_ID] for row in rows)]
        found = await transaction.fetch_batch(self._read, ids)
        known: dict[str, FailedOperationData] = {row["id"]: record(row) for row in found}
        changes = Changes()
        outcomes: list[Any] = []
        for id, decide, key in rows:  # noqa: A001 -- the documented word
            before = known.get(id)
            after = None if before is None else decide(before, moment(found[0]["now_iso"]))
            outcomes.append(False if after is None else before if isinstance(after, Gone) else after)
            if before is not None and after is not None:
                changes.note(before, after, key)
                if isinstance(after, Gone):
                    del known[id]
                else:
                    known[id] = after
        await self._write.all(transaction, changes)
        return outcomes

    async def recall(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[Any]:
        ids = [(each,) for each in dict.fromkeys(row[_ID] for row in rows)]
        found = {row["id"]: row for row in await transaction.fetch_batch(self._look, ids)}
        return [
            record(there) if (there := found.get(id)) and key in there["change_key"].split(",") else None
            for id, _, key in rows  # noqa: A001
        ]


class Writing:
    """How decided changes are written: each record if its version is the one that was read."""

    def __init__(self, queries: Queries) -> None:
        self._put = queries["dlq_put"]
        self._delete = queries["dlq_delete"]

    async def all(self, transaction: Transaction, changes: Changes) -> None:
        """Write all of *changes*; ``Retryable`` if one of the records is not as it was read."""
        for query, rows in ((self._put, changes.puts()), (self._delete, changes.deletions())):
            for some in portions(rows):
                if await transaction.execute_batch(query, some) != len(some):
                    raise Retryable("A dead letter was changed between its being read and written.")


__all__ = ["AddLetters", "ChangeLetters", "Writing"]
