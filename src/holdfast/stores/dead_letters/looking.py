"""Looking at failed operations: finding, counting, statistics. Nothing here changes anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from holdfast.core.durations import checked_seconds
from holdfast.model.dead_letter import TERMINAL
from holdfast.stores.dead_letters import door, page
from holdfast.stores.dead_letters.changing import ALL, Changing
from holdfast.stores.dead_letters.page import FailedOperationPage
from holdfast.stores.dead_letters.shelf import Wanted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.model.dead_letter import FailedOperationData
    from holdfast.stores.dead_letters.shelf import Tally

_SLA = timedelta(hours=24)


class Looking(Changing):
    """Questions about many records."""

    async def get_pending_by_domain(self, domain: str, limit: int = 100) -> list[FailedOperationData]:
        """Return pending operations of *domain*, the oldest first."""
        return await self.find_by_status("pending", domain=door.meant(domain, "domain"), limit=limit)

    async def get_pending_count_by_domain(self, domain: str) -> int:
        """Return how many operations of *domain* are pending."""
        return await self.count(status="pending", domain=door.meant(domain, "domain"))

    async def find_by_status(
        self, status: str, domain: str | None = None, failure_type: str | None = None, limit: int = 100
    ) -> list[FailedOperationData]:
        """Return operations in *status*, the oldest first."""
        door.meant(status, "status")
        return await self._found(Wanted(status=status, domain=domain, failure_type=failure_type, limit=limit))

    async def find(
        self,
        *,
        status: str | None = None,
        domain: str | None = None,
        failure_type: str | None = None,
        offset: int = 0,
        limit: int = 100,
    ) -> list[FailedOperationData]:
        """Return operations in any status, the newest first; a filter that is None does not matter.

        To go through many, use ``find_page``: an offset has to be counted up to.
        """
        return await self._found(
            Wanted(
                status=status, domain=domain, failure_type=failure_type, newest=True,
                offset=door.count(offset, "offset"), limit=limit,
            )
        )  # fmt: skip

    async def find_page(
        self,
        *,
        status: str | None = None,
        domain: str | None = None,
        failure_type: str | None = None,
        newest_first: bool = True,
        cursor: str | None = None,
        limit: int = 100,
        whole: bool = True,
    ) -> FailedOperationPage:
        """Return a page of operations; its ``cursor`` asks for the next one and is None after the last.

        Going on with the cursors, an operation that fits all the time is returned exactly once, whatever is written
        meanwhile. If *whole* is false, payloads and data of requests and responses may be left out.
        ``ConfigurationError`` for a cursor that is not of this order.
        """
        if door.count(limit, "limit") < 1:
            raise ValueError("A page has at least one entry: its limit is 1 or more.")
        beyond = None if cursor is None else page.read(cursor, newest=newest_first)
        if not door.can_be(status=status, domain=domain, failure_type=failure_type):
            return FailedOperationPage()
        wanted = Wanted(
            status=status, domain=domain, failure_type=failure_type, newest=newest_first, beyond=beyond,
            limit=limit + 1, whole=whole,
        )  # fmt: skip
        found = await self._shelf.find(wanted)  # one more than wanted tells whether there is another page
        shown = found[:limit]
        return FailedOperationPage(shown, page.written(shown[-1], newest=newest_first) if len(found) > limit else None)

    async def find_replayable(
        self, max_retries: int, domain: str | None = None, failure_type: str | None = None, limit: int = 100
    ) -> list[FailedOperationData]:
        """Return pending operations that were tried fewer than *max_retries* times, the oldest first."""
        below = door.cap(max_retries, "max_retries")
        wanted = Wanted(status="pending", domain=domain, failure_type=failure_type, retry_below=below, limit=limit)
        return await self._found(wanted)

    async def find_sla_breached(
        self, current_time: datetime, sla_thresholds: dict[str, timedelta]
    ) -> list[FailedOperationData]:
        """Return pending operations that are older than their domain's threshold, the oldest first.

        For a domain that is not named the threshold is that of ``default``, or 24 hours.
        """
        now = door.moment(current_time, "current_time")
        if not isinstance(sla_thresholds, Mapping):
            raise TypeError(f"sla_thresholds is a dict of domains and ages, not {type(sla_thresholds).__name__}.")
        ages = {domain: _threshold(domain, age) for domain, age in sla_thresholds.items()}
        default = ages.get("default", _SLA)
        found: list[FailedOperationData] = []
        for domain in sorted({domain for domain, _, status in await self._shelf.tally() if status == "pending"}):
            before = _before(now, ages.get(domain, default))
            wanted = Wanted(status="pending", domain=domain, created_before=before, limit=ALL)
            found += await self._shelf.find(wanted)
        return sorted(found, key=lambda record: (str(record.created_at), record.id))

    async def find_expired(self, current_time: datetime) -> list[FailedOperationData]:
        """Return operations whose ``expires_at`` is past, in any status, the longest expired first."""
        return await self._found(Wanted(expires_before=door.moment(current_time, "current_time"), limit=ALL))

    async def get_expired_operations(self, before_date: datetime, limit: int = 100) -> list[FailedOperationData]:
        """Return operations that expired before *before_date*, in any status, the longest expired first."""
        return await self._found(Wanted(expires_before=door.moment(before_date, "before_date"), limit=limit))

    async def count(
        self, *, status: str | None = None, domain: str | None = None, failure_type: str | None = None
    ) -> int:
        """Return how many operations there are; a filter that is None does not matter."""
        door.can_be(status=status, domain=domain, failure_type=failure_type)
        return sum(number for *_, number in _matching(await self._shelf.tally(), status, domain, failure_type))

    async def count_created_in_window(self, start: datetime, end: datetime) -> int:
        """Return how many operations were made from *start* to *end*, both included, whatever became of them."""
        wanted = Wanted(created_from=door.moment(start, "start"), created_to=door.moment(end, "end"))
        return await self._shelf.count(wanted)

    async def count_all(self) -> int:
        """Return how many operations are active: neither resolved nor rejected nor archived."""
        return sum(number for *_, status, number in _matching(await self._shelf.tally()) if status not in TERMINAL)

    async def count_by_domain(self, domain: str) -> int:
        """Return how many operations of *domain* there are, in any status."""
        return await self.count(domain=door.meant(domain, "domain"))

    async def get_statistics(self) -> dict[str, Any]:
        """Return counts: ``total``, ``by_status``, ``by_domain``, ``pending_by_domain``.

        And ``pending_by_domain_and_failure_type``, a mapping of mappings. What would be 0 is left out.
        """
        tally = await self._shelf.tally()
        pending_types: dict[str, dict[str, int]] = {}
        for domain, failure_type, _, number in _matching(tally, "pending"):
            pending_types.setdefault(domain, {})[failure_type] = number
        return {
            "total": sum(tally.values()),
            "by_status": _by_status(tally),
            "by_domain": _by_domain(tally),
            "pending_by_domain": _by_domain(tally, "pending"),
            "pending_by_domain_and_failure_type": pending_types,
        }

    async def get_facet_counts(
        self, *, status: str | None = None, domain: str | None = None
    ) -> dict[str, dict[str, int]]:
        """Return ``by_status``, counted within *domain*, and ``by_domain``, counted within *status*.

        So the choice one has in either does not shrink by what was chosen there. What would be 0 is left out.
        """
        door.can_be(status=status, domain=domain)
        tally = await self._shelf.tally()
        return {"by_status": _by_status(tally, domain), "by_domain": _by_domain(tally, status)}

    async def get_oldest_ids(self, count: int, domain: str | None = None) -> list[str]:
        """Return the ids of the oldest operations, in any status."""
        wanted = Wanted(domain=domain, limit=door.count(count, "count"), whole=False)
        return [record.id for record in await self._found(wanted)]

    async def _found(self, wanted: Wanted) -> list[FailedOperationData]:
        can_be = door.can_be(status=wanted.status, domain=wanted.domain, failure_type=wanted.failure_type)
        return await self._shelf.find(wanted) if door.count(wanted.limit, "limit") and can_be else []


def _threshold(domain: str, age: timedelta) -> timedelta:
    return timedelta(seconds=checked_seconds(age, f"The threshold of {domain!r}"))


def _before(now: datetime, age: timedelta) -> datetime:
    try:
        return now - age
    except OverflowError:  # no year before the first: nothing is as old as that
        return datetime.min.replace(tzinfo=UTC)


def _matching(
    tally: Tally, status: str | None = None, domain: str | None = None, failure_type: str | None = None
) -> Iterator[tuple[str, str, str, int]]:
    """Yield domain, failure type, status and number of what fits the filters."""
    for (in_domain, of_type, in_status), number in tally.items():
        if status in {None, in_status} and domain in {None, in_domain} and failure_type in {None, of_type}:
            yield in_domain, of_type, in_status, number


def _by_status(tally: Tally, domain: str | None = None) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for _, _, status, number in _matching(tally, domain=domain):
        counts[status] += number
    return dict(counts)


def _by_domain(tally: Tally, status: str | None = None) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for domain, _, _, number in _matching(tally, status):
        counts[domain] += number
    return dict(counts)


__all__ = ["Looking"]
