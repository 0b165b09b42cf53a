"""Updates by whoever holds something, as kinds of the commit pipeline: each row was the holder's, or was refused."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.db.pipeline.operation import Values
    from holdfast.db.queries.queries import Query
    from holdfast.db.session import Row, Transaction


class Looks:
    """Looks up what is there, with the query *look* and by the column *key*, for rows that begin with that key."""

    def __init__(self, look: Query, key: str) -> None:
        self._look = look
        self._key = key

    async def _found(self, transaction: Transaction, rows: Sequence[Values]) -> dict[str, Row]:
        keys = [(each,) for each in dict.fromkeys(row[0] for row in rows)]
        return {row[self._key]: row for row in await transaction.fetch_batch(self._look, keys)}


class GuardedUpdate(Looks, ABC):
    """A guarded update that is judged by how many rows it touched; of fewer than wanted each is looked up."""

    def __init__(self, name: str, update: Query, look: Query, key: str) -> None:
        super().__init__(look, key)
        self.name = name
        self._update = update
        self.one_statement = len(update.statements) == 1

    async def apply(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[bool]:
        if await transaction.execute_batch(self._update, rows) == len(rows):
            return [True] * len(rows)
        found = await self._found(transaction, rows)
        return [row[0] in found and self._is_mine(found[row[0]], row) for row in rows]

    async def recall(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[Any]:
        found = await self._found(transaction, rows)
        return [True if row[0] in found and self._is_mine(found[row[0]], row) else None for row in rows]

    @abstractmethod
    def _is_mine(self, found: Row, row: Values) -> bool:
        """Whether what is found shows that this very row was written, by an earlier attempt perhaps."""


__all__ = ["GuardedUpdate", "Looks"]
