"""Changes of breakers as a kind of the commit pipeline: read under a lock, decided by the core, written back.

Changes of one breaker that come together are decided one after the other and written once. Each leaves a receipt under
its key in the same transaction, so that after a commit of unknown outcome it is answered and not made again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from holdfast.core.breaker import decide, time_of
from holdfast.stores.breakers.documents import Applied, read_for, read_receipt, written, written_receipt

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.core.breaker import Event
    from holdfast.db.queries.queries import Queries
    from holdfast.db.session import Transaction
    from holdfast.model.breaker import CircuitBreakerChange, CircuitBreakerStateData

Change: TypeAlias = "tuple[str, str, Event]"  # its key, the breaker, what is asked of it

HISTORY_KEPT = 500
_CUT_EVERY = 50
_FORGET_EVERY = 256
_RECEIPTS_KEPT_MS = 3_600_000


@dataclass(slots=True)
class _Desk:
    """The breakers of a batch as they were stored and as they become; what was not written has no stamp.

    *deleted* are those that were, also if they were made again since: of what they were before nothing stays.
    """

    texts: dict[str, str | None]
    now: datetime
    records: dict[str, CircuitBreakerStateData | None] = field(default_factory=dict)
    stamps: dict[str, str] = field(default_factory=dict)
    changes: list[CircuitBreakerChange] = field(default_factory=list)
    deleted: set[str] = field(default_factory=set)

    def decided(self, key: str, service_name: str, event: Event) -> Applied:
        if service_name not in self.records:
            self.records[service_name] = read_for(event, service_name, self.texts[service_name])
        before = self.records[service_name]
        now = time_of(before, self.now)
        record, answer, change = decide(before, service_name, event, now)
        if record is not before:
            self.records[service_name] = record
            self.stamps[service_name] = key
        if record is None and before is not None:
            self.deleted.add(service_name)
            self.changes = [each for each in self.changes if each.service_name != service_name]
        if change is not None:
            self.changes.append(change)
        return Applied(record, answer, now)


class ChangeBreakers:
    """The kind whose rows are (key, service name, event); the result is ``Applied``."""

    name = "breaker changed"
    one_statement = False

    def __init__(self, queries: Queries) -> None:
        self._queries = queries
        self._since_forgotten = _FORGET_EVERY  # with the first change: many processes make few

    async def apply(self, transaction: Transaction, rows: Sequence[Change]) -> Sequence[Applied]:
        """Make all changes, in order."""
        desk = await self._read(transaction, rows)
        outcomes = [desk.decided(*row) for row in rows]
        await self._write(transaction, desk)
        receipts = [(row[0], written_receipt(each)) for row, each in zip(rows, outcomes, strict=True)]
        await transaction.execute_batch(self._queries["receipts_add"], receipts)
        await self._forget(transaction, len(rows))
        return outcomes

    async def recall(self, transaction: Transaction, rows: Sequence[Change]) -> Sequence[Applied | None]:
        """Return what came of each change that was made."""
        found = await transaction.fetch_batch(self._queries["receipts_find"], [(row[0],) for row in rows])
        known = {row["change_key"]: read_receipt(row["answer"]) for row in found}
        return [known.get(row[0]) for row in rows]

    async def _read(self, transaction: Transaction, rows: Sequence[Change]) -> _Desk:
        names = sorted({row[1] for row in rows})
        found = await self._locked(transaction, names)
        made = {row[1] for row in rows if row[2].creates}
        missing = [(name,) for name in names if name in made and found[name]["record"] is None]
        if missing:
            await transaction.execute_batch(self._queries["breakers_make"], missing)
            found |= await self._locked(transaction, (name for (name,) in missing))
        now = max(datetime.fromisoformat(row["now"]) for row in found.values())
        return _Desk({name: row["record"] for name, row in found.items()}, now)

    async def _locked(self, transaction: Transaction, names: Iterable[str]) -> dict[str, dict[str, Any]]:
        rows = await transaction.fetch_batch(self._queries["breakers_locked"], [(name,) for name in names])
        return {row["service_name"]: row for row in rows}

    async def _write(self, transaction: Transaction, desk: _Desk) -> None:
        kept = [
            _row(record, desk.stamps[name]) for name, record in desk.records.items() if record and name in desk.stamps
        ]
        if kept:
            await transaction.execute_batch(self._queries["breakers_write"], kept)
        if desk.deleted:
            await self._remove(transaction, desk)
        if desk.changes:
            entries = [(each.service_name, each.epoch, written(each)) for each in desk.changes]
            await transaction.execute_batch(self._queries["history_add"], entries)
        old = [(each.service_name, each.epoch - HISTORY_KEPT) for each in desk.changes if each.epoch % _CUT_EVERY == 0]
        if old:
            await transaction.execute_batch(self._queries["history_cut"], old)

    async def _remove(self, transaction: Transaction, desk: _Desk) -> None:
        gone = [(name,) for name in sorted(desk.deleted) if desk.records[name] is None]
        if gone:
            await transaction.execute_batch(self._queries["breakers_remove"], gone)
        every = [(name, 1 << 62) for name in sorted(desk.deleted)]
        await transaction.execute_batch(self._queries["history_cut"], every)

    async def _forget(self, transaction: Transaction, changes: int) -> None:
        self._since_forgotten += changes
        if self._since_forgotten >= _FORGET_EVERY:
            self._since_forgotten = 0
            await transaction.execute(self._queries["receipts_forget"], later_ms=-_RECEIPTS_KEPT_MS)


def _row(record: CircuitBreakerStateData, stamp: str) -> tuple[str, str, str | None, str, str]:
    opened = None if record.opened_at is None else record.opened_at.isoformat(timespec="microseconds")
    return record.service_name, record.state, opened, stamp, written(record)


__all__ = ["HISTORY_KEPT", "Change", "ChangeBreakers"]
