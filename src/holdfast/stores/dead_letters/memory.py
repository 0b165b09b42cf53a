"""Failed operations in the memory of the process: for tests and small programs. They are gone when it ends."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right, insort
from datetime import UTC, datetime
from heapq import nsmallest
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from holdfast.core.dead_letters import summary_may_become
from holdfast.model.dead_letter import IN_FLIGHT, DLQCompressedEntry, FailedOperationData
from holdfast.model.world import RealWorld, World
from holdfast.stores.dead_letters.repository import DEFAULT_LEASE, AsyncFailedOperationRepository
from holdfast.stores.dead_letters.shelf import Gone, Wanted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from holdfast.model.workflow import Duration
    from holdfast.stores.dead_letters.shelf import Decide, Summarise, Tally

_Place = tuple[datetime, str]


class MemoryShelf:
    """Records in a dictionary, and their places in the order of their making, by status. Safe for threads."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._lock = threading.RLock()
        self._records: dict[str, FailedOperationData] = {}
        self._places: dict[str, list[_Place]] = {}
        self._tally: dict[tuple[str, str, str], int] = {}
        self._summaries: dict[str, DLQCompressedEntry] = {}
        self.place = f"memory {id(self)}"
        self.at_once = True

    async def initialize(self) -> None:
        """Nothing is needed."""

    async def close(self) -> None:
        """Nothing is held."""

    async def add(self, fresh: FailedOperationData) -> FailedOperationData:
        with self._lock:
            now = self._now()
            due = now if fresh.retry_delay is not None and fresh.status == "pending" else None
            made = replace(fresh, created_at=now, updated_at=now, next_retry_at=due)
            self._put(None, made)
        return _copy(made)

    async def get(self, id: str) -> FailedOperationData | None:  # noqa: A002 -- the documented word
        with self._lock:
            record = self._records.get(id)
            return None if record is None else _copy(record)

    async def change(self, id: str, decide: Decide, *, whole: bool = True) -> FailedOperationData | None:  # noqa: A002
        with self._lock:
            before = self._records.get(id)
            after = None if before is None else decide(before, self._now())
            if before is None or after is None:
                return None
            if isinstance(after, Gone):
                self._put(before, None)
                return before
            self._put(before, after)
        return _copy(after) if whole else after

    async def change_all(
        self,
        ids: Sequence[str],
        decide: Decide,
        *,
        whole: bool = True,  # noqa: ARG002 -- everything is at hand
    ) -> list[FailedOperationData]:
        with self._lock:
            return self._change([self._records[id] for id in ids if id in self._records], decide)  # noqa: A001

    async def sweep(
        self, wanted: Wanted, decide: Decide, summarise: Summarise | None = None
    ) -> list[FailedOperationData]:
        with self._lock:
            changed = self._change(list(self._found(wanted)), decide)
            if summarise is not None and changed:
                for entry in summarise(changed, self._now()):
                    known = self._summaries.get(entry.id)
                    self._summaries[entry.id] = entry if known is None else added(known, entry)
            return changed

    async def find(self, wanted: Wanted) -> list[FailedOperationData]:
        with self._lock:
            return [_copy(record) for record in self._found(wanted)]

    async def count(self, wanted: Wanted) -> int:
        with self._lock:
            return sum(1 for _ in self._matching(wanted))

    async def tally(self) -> Tally:
        with self._lock:
            return dict(self._tally)

    async def add_summary(self, entry: DLQCompressedEntry) -> bool:
        with self._lock:
            if entry.id in self._summaries:
                return False
            self._summaries[entry.id] = replace(entry, compressed_at=entry.compressed_at or self._now())
            return True

    async def summaries(self, domain: str | None, status: str | None, limit: int) -> list[DLQCompressedEntry]:
        with self._lock:
            found = [
                entry
                for entry in self._summaries.values()
                if domain in {None, entry.domain} and status in {None, entry.status}
            ]
            newest = sorted(found, key=lambda entry: (entry.compressed_at, entry.id), reverse=True)
            return [replace(entry, sample_context=_fresh(entry.sample_context)) for entry in newest[:limit]]

    async def summary_totals(self) -> Mapping[str, tuple[int, int]]:
        with self._lock:
            totals: dict[str, tuple[int, int]] = {}
            for entry in self._summaries.values():
                number, items = totals.get(entry.status, (0, 0))
                totals[entry.status] = (number + 1, items + entry.count)
            return totals

    async def move_summary(self, id: str, new_status: str) -> bool:  # noqa: A002
        with self._lock:
            entry = self._summaries.get(id)
            if entry is None or not summary_may_become(entry.status, new_status):
                return False
            when: dict[str, Any] = {f"{new_status}_at": self._now()}
            self._summaries[id] = replace(entry, status=new_status, **when)
            return True

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._world.now(), UTC)

    def _change(self, records: Sequence[FailedOperationData], decide: Decide) -> list[FailedOperationData]:
        """Decide all first: if one decision raises, nothing is changed."""
        now = self._now()
        decided = [(record, decide(record, now)) for record in records]
        changed: list[FailedOperationData] = []
        for before, after in decided:
            if isinstance(after, Gone):
                self._put(before, None)
                changed.append(before)
            elif after is not None:
                self._put(before, after)
                changed.append(_copy(after))
        return changed

    def _put(self, before: FailedOperationData | None, after: FailedOperationData | None) -> None:
        if before is not None:
            places = self._places[before.status]
            del places[bisect_left(places, _place(before))]
            self._count(before, -1)
            if after is None:
                del self._records[before.id]
        if after is not None:
            _insert(self._places.setdefault(after.status, []), _place(after))
            self._count(after, 1)
            self._records[after.id] = after

    def _count(self, record: FailedOperationData, number: int) -> None:
        key = (record.domain, record.failure_type, record.status)
        counted = self._tally.get(key, 0) + number
        if counted:
            self._tally[key] = counted
        else:
            del self._tally[key]

    def _found(self, wanted: Wanted) -> Iterator[FailedOperationData]:
        matching = self._matching(wanted)
        if wanted.due:
            matching = iter(nsmallest(wanted.limit, matching, key=lambda record: (record.next_retry_at, record.id)))
        elif wanted.expires_before is not None:
            matching = iter(nsmallest(wanted.limit, matching, key=lambda record: (record.expires_at, record.id)))
        return islice(matching, wanted.offset, wanted.offset + wanted.limit)

    def _matching(self, wanted: Wanted) -> Iterator[FailedOperationData]:
        fits = _test(wanted, self._now())
        return (record for _, id in self._ordered(wanted) if fits(record := self._records[id]))  # noqa: A001

    def _ordered(self, wanted: Wanted) -> Iterable[_Place]:
        if wanted.status is not None:
            return _walk(self._places.get(wanted.status, []), wanted)
        statuses = {"pending", "replaying"} if wanted.due else self._places
        walks = (_walk(places, wanted) for status, places in self._places.items() if status in statuses)
        return sorted(chain.from_iterable(walks), reverse=wanted.newest)


def _insert(places: list[_Place], place: _Place) -> None:
    if places and place < places[-1]:
        insort(places, place)
    else:  # as a new record is
        places.append(place)


def _walk(places: list[_Place], wanted: Wanted) -> Iterable[_Place]:
    """Return the places that a listing goes through, in its order."""
    if wanted.beyond is not None and wanted.newest:
        places = places[: bisect_left(places, wanted.beyond)]
    elif wanted.beyond is not None:
        places = places[bisect_right(places, wanted.beyond) :]
    return reversed(places) if wanted.newest else iter(places)


def _test(wanted: Wanted, now: datetime) -> Any:
    """Return the test of a record for everything but its status and its place."""
    tests: list[Any] = []
    if wanted.domain is not None:
        tests.append(lambda record: record.domain == wanted.domain)
    if wanted.failure_type is not None:
        tests.append(lambda record: record.failure_type == wanted.failure_type)
    if wanted.retry_below is not None:
        tests.append(lambda record: record.retry_count < wanted.retry_below)
    if wanted.evictable:
        tests.append(lambda record: record.status not in IN_FLIGHT)
    if wanted.due:
        tests.append(lambda record: record.next_retry_at is not None and record.next_retry_at <= now)
    if wanted.created_from is not None:
        tests.append(lambda record: record.created_at >= wanted.created_from)
    if wanted.created_to is not None:
        tests.append(lambda record: record.created_at <= wanted.created_to)
    bounds = {
        "created_at": wanted.created_before,
        "expires_at": wanted.expires_before,
        "resolved_at": None if wanted.resolved_for is None else now - wanted.resolved_for,
        "updated_at": None if wanted.untouched_for is None else now - wanted.untouched_for,
        "replay_beat_at": None if wanted.unheard_for is None else now - wanted.unheard_for,
    }
    given = [(name, bound) for name, bound in bounds.items() if bound is not None]

    def fits(record: FailedOperationData) -> bool:
        return all(test(record) for test in tests) and all(
            (when := getattr(record, name)) is not None and when < bound for name, bound in given
        )

    return fits


def _place(record: FailedOperationData) -> _Place:
    assert record.created_at is not None  # noqa: S101 -- every record on the shelf has it
    return record.created_at, record.id


def _copy(record: FailedOperationData) -> FailedOperationData:
    """Return a record whose mappings are nobody else's."""
    return replace(
        record,
        entity_refs=_fresh(record.entity_refs) if record.entity_refs else {},
        snapshot_data=_fresh(record.snapshot_data) if record.snapshot_data else {},
        request_data=_fresh(record.request_data) if record.request_data else {},
        response_data=_fresh(record.response_data) if record.response_data else {},
        metadata=_fresh(record.metadata) if record.metadata else {},
        payload=None if record.payload is None else _fresh(record.payload),
    )


def _fresh(value: Any) -> Any:
    kind = type(value)
    if kind is dict:
        fresh = value.copy()
        for name, part in value.items():
            if type(part) in _NESTED:
                fresh[name] = _fresh(part)
        return fresh
    return [_fresh(part) for part in value] if kind is list else value


_NESTED = frozenset({dict, list})


def added(known: DLQCompressedEntry, more: DLQCompressedEntry) -> DLQCompressedEntry:
    """Return one summary for two parts of the same eviction; the sample is that of the later record."""
    latest = max((known, more), key=lambda entry: entry.last_seen)
    return replace(
        latest,
        count=known.count + more.count,
        first_seen=min(known.first_seen, more.first_seen),
        status=known.status,
        compressed_at=known.compressed_at,
        stale_at=known.stale_at,
        archived_at=known.archived_at,
    )


class AsyncInMemoryFailedOperationRepository(AsyncFailedOperationRepository):
    """Failed operations in the memory of the process."""

    def __init__(self, *, lease: Duration = DEFAULT_LEASE, world: World | None = None) -> None:
        world = world or RealWorld()
        super().__init__(MemoryShelf(world), lease=lease, world=world)


__all__ = ["AsyncInMemoryFailedOperationRepository", "MemoryShelf", "added"]
