"""A small durable fact to hand to the pipeline: an entry in a ledger, by a key of its own.

The contract suite, the demo and the benchmarks write it. It is also the shortest example of a ``Kind``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.db.queries.queries import Queries
from holdfast.errors import Conflict, Retryable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.db import ConnectionManager, Transaction
    from holdfast.db.url import DialectName

Entry = tuple[str, str, int]


class Ledger:
    """The kind whose rows are (key, note, amount). A key that is taken by another note fails alone."""

    name = "ledger entry"

    def __init__(self, dialect: DialectName) -> None:
        self._queries = Queries.load(dialect, folder=Path(__file__).parent / "sql")
        self._insert = self._queries["ledger_insert"]
        self._find = self._queries["ledger_find"]
        self.one_statement = len(self._insert.statements) == 1

    async def create(self, manager: ConnectionManager) -> None:
        """Make the table if it is not there."""
        create = self._queries["ledger_create"]

        async def work(transaction: Transaction) -> None:
            await transaction.execute(create)

        await manager.run(work)

    async def entries(self, manager: ConnectionManager) -> list[dict[str, Any]]:
        """Return everything that is in the table."""
        everything = self._queries["ledger_all"]

        async def work(transaction: Transaction) -> list[dict[str, Any]]:
            return await transaction.fetch(everything)

        return await manager.run(work)

    async def apply(self, transaction: Transaction, rows: Sequence[tuple[Any, ...]]) -> Sequence[str | Exception]:
        """Write the entries; the result of each is its key."""
        try:
            if await transaction.execute_batch(self._insert, rows) == len(rows):
                return [row[0] for row in rows]
        except Conflict as error:
            if len(rows) > 1:
                raise
            # MariaDB/MySQL: the key came in between the look and the insert. The next look sees whose it is.
            raise Retryable(str(error)) from error
        found = await self.recall(transaction, rows)
        return [
            known if known is not None else Conflict(f"The ledger has another entry under {row[0]!r}.")
            for known, row in zip(found, rows, strict=True)
        ]

    async def recall(self, transaction: Transaction, rows: Sequence[tuple[Any, ...]]) -> Sequence[str | None]:
        """Return the key of each entry that is there as it was handed over."""
        notes = {row["entry_key"]: row["note"] for row in await transaction.fetch_batch(self._find, rows)}
        return [key if notes.get(key) == note else None for key, note, _ in rows]
