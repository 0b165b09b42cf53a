"""Looking at runs: listing, counting, one run, its steps, and the executors. Nothing here changes anything."""

from __future__ import annotations

import builtins
from collections.abc import Mapping  # noqa: TC003 -- a workflow reads WorkflowCount back from its record
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.db.url import DialectName
from holdfast.errors import ConfigurationError, WorkflowNotFound
from holdfast.workflows.looking.conditions import (
    attributes_of,
    conditions,
    halves,
    listed_attribute,
    narrowings,
    statuses,
)
from holdfast.workflows.looking.page import Cursor, Page
from holdfast.workflows.looking.states import States, executor

if TYPE_CHECKING:
    import builtins
    from collections.abc import Sequence

    from holdfast.db.manager import ConnectionManager
    from holdfast.db.queries.queries import Queries
    from holdfast.db.session import Row
    from holdfast.model.workflow import ExecutorState, StepState, WorkflowState
    from holdfast.workflows.looking.filters import Filters
    from holdfast.workflows.payloads import Payloads

GROUPS = (
    "status", "name", "queue_name", "application_version", "executor_id", "class_name", "authenticated_user",
)  # fmt: skip
MOST = 10_000
# Up to so many runs are fetched and sorted; of more than that, fifty are soon met on the way through all of them.
_FEW = 10_000
_SAMPLE = 1_500
# In the payloads of so many runs one question looks for a text: nobody waits long for the snapshot it holds.
_SEARCHED = 2_000
_NOT_OF_A_STRETCH = {"search", "search_quoted", "pending", "load_input", "load_output"}
# What is narrowed by an index that holds PENDING runs, too.
_WITH_PENDING = {
    "prefix_from", "attempts_from", "children_only", "parent_workflow_id_list", "forked_from_list",
}  # fmt: skip
_LIST = list
_ALL = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowCount:
    """How many runs have in common what *group* says, and when the first and the last of them were made.

    With buckets, *group* holds ``bucket``: when the stretch of time begins, in milliseconds since the epoch.
    """

    group: Mapping[str, Any]
    count: int
    oldest: int
    newest: int


class Looking:
    """Questions about runs, to one database."""

    def __init__(self, manager: ConnectionManager, queries: Queries, payloads: Payloads) -> None:
        self._manager = manager
        self._queries = queries
        self._states = States(payloads)

    async def list(
        self,
        filters: Filters,
        *,
        limit: int = 100,
        newest_first: bool = True,
        cursor: str | None = None,
        load_input: bool = False,
        load_output: bool = False,
    ) -> Page[WorkflowState]:
        """Return runs by the time they were made, *limit* at most, and the cursor of what follows.

        Going on with the cursors, every run that was there before the first page, and fits all the time, is
        returned exactly once, whatever is written meanwhile. A later run may be returned or not. Raises
        ``ConfigurationError`` for a cursor that is not of this order.
        """
        if type(limit) is not int or not 0 < limit <= MOST:
            raise ConfigurationError(f"The limit of a page is from 1 to {MOST}, not {limit!r}: ask for several pages.")
        values = conditions(filters) | halves(filters) | await self._narrowed(filters, limit)
        values |= {"load_input": load_input, "load_output": load_output}
        beyond = None if cursor is None else Cursor.read(cursor, newest_first=newest_first)
        page: Page[WorkflowState] = Page()
        while True:
            if beyond is not None:
                values |= {"beyond": beyond.created_at, "beyond_id": beyond.workflow_id}
            end = None if filters.search is None else await self._stretch(values, newest_first=newest_first)
            beyond = await self._fill(page, limit, values, end, newest_first=newest_first)
            if beyond is None or len(page) == limit:
                page.cursor = None if beyond is None else beyond.text()
                return page

    async def _fill(
        self,
        page: Page[WorkflowState],
        limit: int,
        values: Mapping[str, Any],
        end: Cursor | None,
        *,
        newest_first: bool,
    ) -> Cursor | None:
        """Add runs up to *end* while there is room; return the last run that was looked at, None if it was the last."""
        until = {} if end is None else {"until": end.created_at, "until_id": end.workflow_id}
        room = limit - len(page)
        # One more than there is room for tells whether there is another page.
        query = "runs_newest" if newest_first else "runs_oldest"
        rows = await self._fetch(query, {**values, **until, "most": room + 1})
        page.extend(self._states.run(row) for row in rows[:room])
        return Cursor(page[-1].created_at, page[-1].workflow_id, newest_first) if len(rows) > room else end

    async def _stretch(self, values: Mapping[str, Any], *, newest_first: bool) -> Cursor | None:
        """Return the last run of those in which one question looks for a text; None if in all that are left."""
        others = {name: value for name, value in values.items() if name not in _NOT_OF_A_STRETCH}
        query = "stretch_newest" if newest_first else "stretch_oldest"
        rows = await self._fetch(query, {**others, "one": 1, "most": _SEARCHED - 1})
        return Cursor(rows[0]["created_at"], rows[0]["workflow_uuid"], newest_first) if rows else None

    async def _narrowed(self, filters: Filters, limit: int) -> dict[str, Any]:
        """Return what leads to the runs by an index, if they are few; nothing if they are to be met on the way."""
        narrow = narrowings(filters)
        if narrow:
            probe = {**narrow, "partial": narrow.keys().isdisjoint(_WITH_PENDING)}
            return {**narrow, "narrow": True} if await self._found("runs_probe", probe, _FEW + 1) <= _FEW else {}
        attributes = attributes_of(filters)
        if attributes is None or self._queries.dialect is DialectName.MYSQL:
            return {}
        if self._queries.dialect is DialectName.SQLITE:
            listed = listed_attribute(filters)
            few = listed and await self._found("attribute_probe", listed, _FEW + 1) <= _FEW
            return {**listed, "narrow": True} if few else {}
        # PostgreSQL's index of attributes gathers everything it finds: they are not counted by it.
        met = await self._found("runs_sample", {"attributes_any": attributes}, _SAMPLE)
        return {} if met > limit else {"attributes": attributes, "narrow": True}

    async def _found(self, query: str, values: Mapping[str, Any], most: int) -> int:
        [row] = await self._fetch(query, {**values, "most": most})
        found: int = row["found"]
        return found

    async def _fetch(self, query: str, values: Mapping[str, Any]) -> builtins.list[Row]:
        """Ask, lists being arrays on PostgreSQL and JSON elsewhere."""
        if self._queries.dialect is not DialectName.POSTGRES:
            values = {name: _json(value) if isinstance(value, _LIST) else value for name, value in values.items()}
        return await self._manager.fetch(self._queries[query], **values)

    async def get(self, workflow_id: str, *, load_input: bool = True, load_output: bool = True) -> WorkflowState:
        """Return one run. Raises ``WorkflowNotFound``."""
        row = await self._manager.fetchone(
            self._queries["run_get"], workflow_id=workflow_id, load_input=load_input, load_output=load_output
        )
        if row is None:
            raise not_found(workflow_id)
        return self._states.run(row)

    async def steps(
        self, workflow_id: str, *, load_output: bool = True, limit: int | None = None, offset: int = 0
    ) -> builtins.list[StepState]:
        """Return a run's recorded operations by their number. Raises ``WorkflowNotFound`` if there is no such run."""
        most = _ALL if limit is None else limit
        if any(type(each) is not int or not 0 <= each <= _ALL for each in (most, offset)):
            raise ConfigurationError(
                f"The limit and the offset of steps are whole numbers from 0 on, not {limit!r} and {offset!r}."
            )
        rows = await self._manager.fetch(
            self._queries["steps_list"], workflow_id=workflow_id, load_output=load_output, most=most, skipped=offset
        )
        if not rows:
            await self.get(workflow_id, load_input=False, load_output=False)
        return [self._states.step(row) for row in rows]

    async def count(
        self, filters: Filters, *, group_by: Sequence[str] = ("status",), bucket_ms: int | None = None
    ) -> builtins.list[WorkflowCount]:
        """Count the runs that fit, by what is in *group_by*, and by stretches of *bucket_ms* of the time of making.

        Groups without a run are not there. Raises ``ConfigurationError`` for a group that there is not.
        """
        groups = _groups(group_by, bucket_ms)
        values = conditions(filters) | statuses(filters) | {f"by_{name}": True for name in groups if name != "bucket"}
        rows = await self._fetch("runs_count", {**values, "bucket_ms": bucket_ms})
        counts = [
            WorkflowCount(
                group={name: row[name] for name in groups},
                count=row["runs"],
                oldest=row["oldest"],
                newest=row["newest"],
            )
            for row in rows
        ]
        return sorted(counts, key=lambda each: [(value is not None, value) for value in each.group.values()])

    async def executors(self) -> builtins.list[ExecutorState]:
        """Return the executors that are registered, oldest first."""
        return [executor(row) for row in await self._manager.fetch(self._queries["executors_list"])]


def _json(values: builtins.list[str]) -> str:
    return msgspec.json.encode(values).decode()


def not_found(workflow_id: str) -> WorkflowNotFound:
    """Return the error for an id that no run has."""
    return WorkflowNotFound(f"There is no run {workflow_id!r}: its id is another, or it was deleted.")


def _groups(group_by: Sequence[str], bucket_ms: int | None) -> builtins.list[str]:
    names = [*dict.fromkeys(group_by)]
    if unknown := [name for name in names if name not in GROUPS]:
        raise ConfigurationError(f"Runs cannot be counted by {', '.join(unknown)}: choose from {', '.join(GROUPS)}.")
    if bucket_ms is None:
        return names
    if bucket_ms <= 0:
        raise ConfigurationError(f"A bucket is a stretch of at least one millisecond, not {bucket_ms}.")
    return ["bucket", *names]


__all__ = ["GROUPS", "Looking", "WorkflowCount", "not_found"]
