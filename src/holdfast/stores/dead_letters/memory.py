"""Failed operations in the memory of the process: for tests and small programs. They are gone when it ends."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right, insort
from datetime import UTC, datetime
from heapq import merge, nsmallest
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
"""When a record was made, and its id: what listings go by."""

_Kind = tuple[str, str, str]
"""Domain, failure type and status."""


class MemoryShelf:
    """Records in a dictionary, and the places of each kind in the order of their making. Safe for threads."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._lock = threading.RLock()
        self._records: dict[str, FailedOperationData] = {}
        self._places: dict[_Kind, list[_Place]] = {}
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
            self._take_place(made)
            self._records[made.id] = made
        return _copy(made)

    async def get(self, id: str) -> FailedOperationData | None:  # noqa: A002 -- the documented word
        with self._lock:
            record = self._records.get(id)
            return None if record is None else _copy(record)

    async def change(
        self,
        id: str,  # noqa: A002
        decide: Decide,
        *,
        whole: bool = True,
        on_standing: bool = False,  # noqa: ARG002 -- what is at hand is read first
    ) -> FailedOperationData | None:
        with self._lock:
            before = self._records.get(id)
            after = None if before is None else decide(before, self._now())
            if before is None or after is None:
                return None
            if isinstance(after, Gone):
                self._remove(before)
                return before
            self._replace(before, after)
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
            return sum(1 for _ in self._fitting(chain.from_iterable(self._walks(wanted)), wanted))

    async def tally(self) -> Tally:
        with self._lock:
            return {kind: len(places) for kind, places in self._places.items()}

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
                self._remove(before)
                changed.append(before)
            elif after is not None:
                self._replace(before, after)
                changed.append(_copy(after))
        return changed

    def _remove(self, record: FailedOperationData) -> None:
        self._give_up_place(record)
        del self._records[record.id]

    def _replace(self, before: FailedOperationData, after: FailedOperationData) -> None:
        if after.status != before.status:  # nothing else of a kind ever changes
            self._give_up_place(before)
            self._take_place(after)
        self._records[after.id] = after

    def _take_place(self, record: FailedOperationData) -> None:
        place = _place(record)
        places = self._places.setdefault((record.domain, record.failure_type, record.status), [])
        if not places or places[-1] < place:  # as that of a new record is
            places.append(place)
        else:
            insort(places, place)

    def _give_up_place(self, record: FailedOperationData) -> None:
        kind = (record.domain, record.failure_type, record.status)
        places = self._places[kind]
        del places[bisect_left(places, _place(record))]
        if not places:
            del self._places[kind]

    def _found(self, wanted: Wanted) -> Iterator[FailedOperationData]:
        walks = self._walks(wanted)
        if wanted.due:
            fitting = self._fitting(chain.from_iterable(walks), wanted)
            found = iter(nsmallest(wanted.limit, fitting, key=lambda record: (record.next_retry_at, record.id)))
        elif wanted.expires_before is not None:
            fitting = self._fitting(chain.from_iterable(walks), wanted)
            found = iter(nsmallest(wanted.limit, fitting, key=lambda record: (record.expires_at, record.id)))
        else:
            found = self._fitting(merge(*walks, reverse=wanted.newest), wanted)
        return islice(found, wanted.offset, wanted.offset + wanted.limit)

    def _fitting(self, places: Iterable[_Place], wanted: Wanted) -> Iterator[FailedOperationData]:
        fits = _test(wanted, self._now())
        return (record for _, id in places if fits(record := self._records[id]))  # noqa: A001

    def _walks(self, wanted: Wanted) -> list[Iterable[_Place]]:
        return [_walk(places, wanted) for kind, places in self._places.items() if _is_wanted(kind, wanted)]


def _is_wanted(kind: _Kind, wanted: Wanted) -> bool:
    domain, failure_type, status = kind
    return (
        wanted.domain in {None, domain}
        and wanted.failure_type in {None, failure_type}
        and wanted.status in {None, status}
        and (not wanted.due or status in _MAY_BE_DUE)
        and (not wanted.evictable or status not in IN_FLIGHT)
    )


def _walk(places: list[_Place], wanted: Wanted) -> Iterable[_Place]:
    """Return the places that a listing goes through, in its order."""
    if wanted.beyond is not None and wanted.newest:
        places = places[: bisect_left(places, wanted.beyond)]
    elif wanted.beyond is not None:
        places = places[bisect_right(places, wanted.beyond) :]
    return reversed(places) if wanted.newest else iter(places)


def _test(wanted: Wanted, now: datetime) -> Any:
    """Return the test of a record for everything but its kind and its place."""
    tests: list[Any] = []
    if wanted.retry_below is not None:
        tests.append(lambda record: record.retry_count < wanted.retry_below)
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
_MAY_BE_DUE = frozenset({"pending", "replaying"})


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
