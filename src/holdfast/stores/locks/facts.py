"""What becomes of locks, as kinds of the commit pipeline: acquired, released, extended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.stores.guarded import GuardedUpdate, Looks
from holdfast.stores.locks.lease import Held, Lease, lease_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.db.pipeline.operation import Values
    from holdfast.db.queries.queries import Queries, Query
    from holdfast.db.session import Row, Transaction


class AcquireLocks(Looks):
    """Rows are (key, owner, claim key, ttl in ms); the result is a ``Lease``, or ``Held`` if it is somebody else's."""

    name = "lock acquired"

    def __init__(self, queries: Queries) -> None:
        super().__init__(*_look(queries))
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


def _look(queries: Queries) -> tuple[Query, str]:
    return queries["locks_look"], "lock_key"


def _verdict(found: Row, row: Values) -> Lease | Held:
    if found["owner"] is not None and found["claim_key"] == row[2]:
        return _lease(found)
    return Held(max(0.0, (found["expires_at_ms"] - found["now_ms"]) / 1000) if found["owner"] is not None else 0.0)


def _lease(row: Row) -> Lease:
    return lease_of(row["lock_key"], row["owner"], row["token"], row["expires_at_ms"])


class ReleaseLocks(GuardedUpdate):
    """Rows are (key, token, owner, key of this call); False if the lock is not this holder's any more."""

    def __init__(self, queries: Queries) -> None:
        super().__init__("lock released", queries["locks_release"], *_look(queries))

    def _is_mine(self, found: Row, row: Values) -> bool:
        return found["owner"] is None and bool(found["claim_key"] == row[3])


class ExtendLocks(GuardedUpdate):
    """Rows are (key, token, owner, ttl in ms); False if the lease is over or somebody else's."""

    def __init__(self, queries: Queries) -> None:
        super().__init__("lease extended", queries["locks_extend"], *_look(queries))

    async def recall(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[Any]:  # noqa: ARG002
        return [None] * len(rows)  # to extend again does no harm

    def _is_mine(self, found: Row, row: Values) -> bool:
        is_holder = found["token"] == row[1] and found["owner"] == row[2]
        return bool(is_holder and found["expires_at_ms"] > found["now_ms"])


__all__ = ["AcquireLocks", "ExtendLocks", "ReleaseLocks"]
