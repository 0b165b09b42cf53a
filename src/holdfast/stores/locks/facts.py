"""What becomes of locks, as kinds of the commit pipeline: acquired, released, extended."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from holdfast.stores.locks.lease import Held, Lease, lease_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.db.pipeline.operation import Values
    from holdfast.db.queries.queries import Queries, Query
    from holdfast.db.session import Row, Transaction


class _Looks:
    """What the kinds have in common: to look up who holds what."""

    def __init__(self, queries: Queries) -> None:
        self._look = queries["locks_look"]

    async def _found(self, transaction: Transaction, rows: Sequence[Values]) -> dict[str, Row]:
        keys = [(each,) for each in dict.fromkeys(row[0] for row in rows)]
        return {row["lock_key"]: row for row in await transaction.fetch_batch(self._look, keys)}


class AcquireLocks(_Looks):
    """Rows are (key, owner, claim key, ttl in ms); the result is a ``Lease``, or ``Held`` if it is somebody else's."""

    name = "lock acquired"

    def __init__(self, queries: Queries) -> None:
        super().__init__(queries)
        self._acquire = queries["locks_acquire"]
        self.one_statement = True  # that writes

    async def apply(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[Lease | Held]:
        # Of several who want one lock at once the first is tried; a statement may not write a row twice.
        first = sorted({row[0]: row for row in reversed(rows)}.values())
        acquired = {row["claim_key"]: row for row in await transaction.fetch_batch(self._acquire, first)}
        if len(acquired) == len(rows):
            return [_lease(acquired[row[2]]) for row in rows]
        found = await self._found(transaction, rows)
        return [_verdict(found[row[0]], row) for row in rows]

    async def recall(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[Lease | None]:
        found = await self._found(transaction, rows)
        verdicts = [_verdict(found[row[0]], row) if row[0] in found else None for row in rows]
        return [each if isinstance(each, Lease) else None for each in verdicts]


def _verdict(found: Row, row: Values) -> Lease | Held:
    if found["owner"] is not None and found["claim_key"] == row[2]:
        return _lease(found)
    return Held(max(0.0, (found["expires_at_ms"] - found["now_ms"]) / 1000) if found["owner"] is not None else 0.0)


def _lease(row: Row) -> Lease:
    return lease_of(row["lock_key"], row["owner"], row["token"], row["expires_at_ms"])


class _HolderWrites(_Looks, ABC):
    """A guarded update that is judged by how many locks it touched; of fewer than wanted each is looked up."""

    def __init__(self, name: str, queries: Queries, update: Query) -> None:
        super().__init__(queries)
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
        """Whether what is found shows that this very row was written."""


class ReleaseLocks(_HolderWrites):
    """Rows are (key, token, owner, key of this call); False if the lock is not this holder's any more."""

    def __init__(self, queries: Queries) -> None:
        super().__init__("lock released", queries, queries["locks_release"])

    def _is_mine(self, found: Row, row: Values) -> bool:
        return found["owner"] is None and bool(found["claim_key"] == row[3])


class ExtendLocks(_HolderWrites):
    """Rows are (key, token, owner, ttl in ms); False if the lease is over or somebody else's."""

    def __init__(self, queries: Queries) -> None:
        super().__init__("lease extended", queries, queries["locks_extend"])

    async def recall(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[Any]:  # noqa: ARG002
        return [None] * len(rows)  # to extend again does no harm

    def _is_mine(self, found: Row, row: Values) -> bool:
        is_holder = found["token"] == row[1] and found["owner"] == row[2]
        return bool(is_holder and found["expires_at_ms"] > found["now_ms"])


__all__ = ["AcquireLocks", "ExtendLocks", "ReleaseLocks"]
