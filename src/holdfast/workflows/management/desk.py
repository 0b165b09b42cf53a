"""What is asked about runs and done to them from outside: each as a request that can be carried out, and recorded.

A request is made of plain values, and what comes back can be stored: so an application may record it as an operation
of the workflow that asks, and a replay gets the same answer. ``management.py`` is the face of this.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypedDict, TypeVar

from holdfast.core.durations import milliseconds
from holdfast.core.moments import checked_moment, milliseconds_of
from holdfast.core.options import refuse_unknown, several
from holdfast.core.texts import check_text
from holdfast.db.joined import Joined
from holdfast.errors import MisuseError
from holdfast.model.workflow import (
    INTERNAL_QUEUE,
    ApplicationVersion,
    Duration,
    ExecutorState,
    StepState,
    WorkflowState,
)
from holdfast.workflows.looking import Filters
from holdfast.workflows.management.desk_records import ChangesRecord, CountRecord, PageRecord, PruneRecord
from holdfast.workflows.queues.settings import check_name
from holdfast.workflows.retention import Retention
from holdfast.workflows.running.ids import check_id, sought_id

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
    from datetime import datetime

    from holdfast.db.session import Transaction
    from holdfast.workflows.application.versions import Versions
    from holdfast.workflows.control import Control
    from holdfast.workflows.dispatch_state import DispatchStates
    from holdfast.workflows.looking import Looking, Transfer
    from holdfast.workflows.looking.filters import OneOrMore, Scalar, When
    from holdfast.workflows.looking.transfer import OnConflict
    from holdfast.workflows.messaging.store import MessageStore
    from holdfast.workflows.operations.recorded_change import Ownership
    from holdfast.workflows.queues import QueueStore
    from holdfast.workflows.retention import Pruner
    from holdfast.workflows.schedules import Schedules
    from holdfast.workflows.streams import StreamStore

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Desk:
    """Everything a request may need."""

    control: Control
    looking: Looking
    transfer: Transfer
    pruner: Pruner
    versions: Versions
    queues: QueueStore
    schedules: Schedules
    streams: StreamStore
    dispatch_states: DispatchStates
    messages: MessageStore

    def within(self, transaction: Transaction, names: Callable[[int], str], ownership: Ownership) -> Desk:
        """Return the desk for one ``Change`` inside an open transaction; *names* are the ids of what it makes.

        *ownership* is that of the run that asks; a change of runs makes sure of it.
        """
        verbs = Joined(transaction)
        queues = self.queues.within(verbs)
        return replace(
            self,
            control=self.control.within(verbs, names, ownership),
            transfer=self.transfer.within(verbs),
            versions=self.versions.within(verbs),
            queues=queues,
            schedules=self.schedules.within(queues, names),
            dispatch_states=self.dispatch_states.within(verbs),
        )


class Change(Generic[T]):
    """A call that changes something, in one transaction: in a workflow that is also the one of its record.

    It waits for nothing but what the desk does. Calls that are not marked so only look, or change so much that each
    part is a transaction; those can be repeated.
    """

    def __init__(self, call: Callable[[Desk], Coroutine[Any, Any, T]]) -> None:
        self._call = call

    def __call__(self, desk: Desk) -> Coroutine[Any, Any, T]:
        return self._call(desk)


class Request(NamedTuple, Generic[T]):
    """Something to do at the desk: the method that asks, how it is done, what it was given, and what comes back."""

    name: str
    call: Callable[[Desk], Coroutine[Any, Any, T]]
    arguments: Mapping[str, Any]
    type: Any


class FilterOptions(TypedDict, total=False):
    """What runs can be chosen by: the fields of ``Filters``, by name."""

    workflow_ids: OneOrMore | None
    workflow_id_prefix: str | None
    status: OneOrMore | None
    name: OneOrMore | None
    class_name: OneOrMore | None
    config_name: OneOrMore | None
    application_version: OneOrMore | None
    application_id: OneOrMore | None
    executor_id: OneOrMore | None
    authenticated_user: OneOrMore | None
    assumed_role: OneOrMore | None
    queue_name: OneOrMore | None
    queue_partition_key: OneOrMore | None
    deduplication_id: OneOrMore | None
    priority: int | Sequence[int] | None
    parent_workflow_id: OneOrMore | None
    forked_from: OneOrMore | None
    was_forked_from: bool | None
    is_fork: bool | None
    has_parent: bool | None
    has_deadline: bool | None
    queues_only: bool
    min_recovery_attempts: int | None
    created_after: When | None
    created_before: When | None
    started_after: When | None
    started_before: When | None
    completed_after: When | None
    completed_before: When | None
    updated_after: When | None
    updated_before: When | None
    attributes: Mapping[str, Scalar] | None
    search: str | None


class Place(TypedDict, total=False):
    """Where a forked or rewound run goes on: by default in its own version, on the internal queue."""

    application_version: str | None
    queue_name: str | None
    queue_partition_key: str | None


def cancel(name: str, ids: Iterable[str], *, children: bool) -> Request[ChangesRecord]:
    """Ask for runs to be cancelled."""
    wanted = _ids(ids)

    async def call(desk: Desk) -> ChangesRecord:
        return ChangesRecord.of(await desk.control.cancel(wanted, children=children))

    return Request(name, Change(call), {"workflow_ids": wanted, "children": children}, ChangesRecord)


def resume(
    name: str, ids: Iterable[str], queue_name: str | None, partition_key: str | None = None
) -> Request[ChangesRecord]:
    """Ask for runs to go on where they stopped."""
    wanted = _ids(ids)
    where = {"queue_name": queue_name, "queue_partition_key": partition_key}
    _check_place(where)

    async def call(desk: Desk) -> ChangesRecord:
        return ChangesRecord.of(await desk.control.resume(wanted, **where))

    return Request(name, Change(call), {"workflow_ids": wanted, **where}, ChangesRecord)


def fork(
    name: str, ids: Iterable[str], start_step: int, place: Place, new_ids: Sequence[str] | None = None
) -> Request[dict[str, str]]:
    """Ask for new runs that begin with what others have recorded; the answer is their ids by the ids of those."""
    wanted = _ids(ids)
    refuse_unknown(f"{name}()", place, Place.__annotations__)
    _check_place(place)
    if new_ids is not None:
        new_ids = [check_id(each) for each in new_ids]

    async def call(desk: Desk) -> dict[str, str]:
        return dict(await desk.control.fork(wanted, start_step, **place, new_ids=new_ids))

    arguments = {"workflow_ids": wanted, "start_step": start_step, "place": place, "new_ids": new_ids}
    return Request(name, Change(call), arguments, dict[str, str])


def rewind(name: str, ids: Iterable[str], start_step: int, place: Place) -> Request[ChangesRecord]:
    """Ask for ended runs to run again from a step on."""
    wanted = _ids(ids)
    refuse_unknown(f"{name}()", place, Place.__annotations__)
    _check_place(place)

    async def call(desk: Desk) -> ChangesRecord:
        return ChangesRecord.of(await desk.control.rewind(wanted, start_step, **place))

    arguments = {"workflow_ids": wanted, "start_step": start_step, "place": place}
    return Request(name, Change(call), arguments, ChangesRecord)


def delete(name: str, ids: Iterable[str], *, children: bool) -> Request[ChangesRecord]:
    """Ask for ended runs to be deleted."""
    wanted = _ids(ids)

    async def call(desk: Desk) -> ChangesRecord:
        return ChangesRecord.of(await desk.control.delete(wanted, children=children))

    return Request(name, Change(call), {"workflow_ids": wanted, "children": children}, ChangesRecord)


def set_delay(
    name: str, ids: Iterable[str], delay: Duration | None, delay_until: datetime | None
) -> Request[ChangesRecord]:
    """Ask for runs that wait for their time to have another one."""
    wanted, (until_ms, delay_ms) = _ids(ids), _moment(delay, delay_until)

    async def call(desk: Desk) -> ChangesRecord:
        return ChangesRecord.of(await desk.control.set_delay(wanted, until_ms, delay_ms=delay_ms))

    return Request(name, Change(call), {"workflow_ids": wanted, "until": until_ms, "delay": delay_ms}, ChangesRecord)


def update_attributes(
    name: str, ids: Iterable[str], attributes: Mapping[str, Any] | None, *, merge: bool
) -> Request[ChangesRecord]:
    """Ask for the attributes of runs to be replaced, or added to."""
    wanted = _ids(ids)

    async def call(desk: Desk) -> ChangesRecord:
        return ChangesRecord.of(await desk.control.update_attributes(wanted, attributes, merge=merge))

    arguments = {"workflow_ids": wanted, "attributes": attributes, "merge": merge}
    return Request(name, Change(call), arguments, ChangesRecord)


def list_runs(
    filters: Mapping[str, Any],
    *,
    limit: int,
    newest_first: bool,
    cursor: str | None,
    load_input: bool,
    load_output: bool,
) -> Request[PageRecord]:
    """Ask for a page of runs."""
    wanted = _filters("list_workflows()", filters)
    shown: dict[str, Any] = {"newest_first": newest_first, "load_input": load_input, "load_output": load_output}

    async def call(desk: Desk) -> PageRecord:
        page = await desk.looking.list(wanted, limit=limit, cursor=cursor, **shown)
        return PageRecord(list(page), page.cursor)

    arguments = {"filters": filters, "limit": limit, "cursor": cursor, **shown}
    return Request("list_workflows", call, arguments, PageRecord)


def get_run(workflow_id: str, *, load_input: bool, load_output: bool) -> Request[WorkflowState]:
    """Ask where one run stands."""
    shown = {"load_input": load_input, "load_output": load_output}

    async def call(desk: Desk) -> WorkflowState:
        return await desk.looking.get(sought_id(workflow_id), **shown)

    return Request("get_workflow", call, {"workflow_id": workflow_id, **shown}, WorkflowState)


def list_steps(workflow_id: str, *, load_output: bool, limit: int | None, offset: int) -> Request[list[StepState]]:
    """Ask what a run has recorded."""

    async def call(desk: Desk) -> list[StepState]:
        return await desk.looking.steps(sought_id(workflow_id), load_output=load_output, limit=limit, offset=offset)

    arguments = {"workflow_id": workflow_id, "load_output": load_output, "limit": limit, "offset": offset}
    return Request("list_steps", call, arguments, list[StepState])


def count(filters: Mapping[str, Any], group_by: Sequence[str], bucket: Duration | None) -> Request[list[CountRecord]]:
    """Ask how many runs there are of each kind."""
    wanted = _filters("count_workflows()", filters)
    groups = [group_by] if isinstance(group_by, str) else list(map(str, several("group_by", group_by)))
    bucket_ms = None if bucket is None else milliseconds(bucket, "bucket", least=0.001)

    async def call(desk: Desk) -> list[CountRecord]:
        found = await desk.looking.count(wanted, group_by=groups, bucket_ms=bucket_ms)
        return [CountRecord(dict(each.group), each.count, each.oldest, each.newest) for each in found]

    arguments = {"filters": filters, "group_by": groups, "bucket_ms": bucket_ms}
    return Request("count_workflows", call, arguments, list[CountRecord])


def export_run(workflow_id: str) -> Request[dict[str, Any]]:
    """Ask for a run as a document."""

    async def call(desk: Desk) -> dict[str, Any]:
        return await desk.transfer.export(sought_id(workflow_id))

    return Request("export_workflow", call, {"workflow_id": workflow_id}, dict[str, Any])


def import_run(document: Mapping[str, Any], workflow_id: str | None, on_conflict: OnConflict) -> Request[str]:
    """Ask for a run to be made of a document; the answer is its id."""

    async def call(desk: Desk) -> str:
        return await desk.transfer.import_(document, workflow_id=workflow_id, on_conflict=on_conflict)

    arguments = {"document": document, "workflow_id": workflow_id, "on_conflict": on_conflict}
    return Request("import_workflow", Change(call), arguments, str)


def prune(
    policies: Sequence[Retention], *, dry_run: bool, progress: Callable[[int], None] | None
) -> Request[PruneRecord]:
    """Ask for old runs to be deleted."""
    if not policies:
        raise MisuseError("prune() deletes nothing by itself: pass a Retention that says which runs may go.")
    for each in policies:
        if not isinstance(each, Retention):
            raise MisuseError(f"prune() takes policies, as Retention(older_than=86_400), not a {type(each).__name__}.")

    async def call(desk: Desk) -> PruneRecord:
        report = await desk.pruner.prune(policies, dry_run=dry_run, progress=progress)
        return PruneRecord([(each.matched, each.deleted) for each in report.policies], report.dry_run)

    return Request("prune", call, {"policies": list(policies), "dry_run": dry_run}, PruneRecord)


def executors() -> Request[list[ExecutorState]]:
    """Ask which processes run workflows."""

    async def call(desk: Desk) -> list[ExecutorState]:
        return await desk.looking.executors()

    return Request("list_executors", call, {}, list[ExecutorState])


def versions() -> Request[list[ApplicationVersion]]:
    """Ask which versions have registered."""

    async def call(desk: Desk) -> list[ApplicationVersion]:
        return await desk.versions.all()

    return Request("list_application_versions", call, {}, list[ApplicationVersion])


def latest_version() -> Request[ApplicationVersion]:
    """Ask which version is the latest."""

    async def call(desk: Desk) -> ApplicationVersion:
        return await desk.versions.latest()

    return Request("get_latest_application_version", call, {}, ApplicationVersion)


def set_latest_version(version_name: str) -> Request[None]:
    """Ask for a version to be the latest."""
    check_text("version_name", version_name)

    async def call(desk: Desk) -> None:
        await desk.versions.set_latest(version_name)

    return Request("set_latest_application_version", Change(call), {"version_name": version_name}, None)


def _filters(verb: str, filters: Mapping[str, Any]) -> Filters:
    refuse_unknown(verb, filters, FilterOptions.__annotations__, "filter")
    return Filters(**filters)


def _ids(ids: Iterable[str]) -> list[str]:
    if isinstance(ids, str):
        raise MisuseError(f"Several ids are wanted, not one text: pass [{ids!r}], or use the method for a single run.")
    return [sought_id(each) for each in several("workflow_ids", ids)]


def _check_place(place: Mapping[str, Any]) -> None:
    """Refuse a queue, a partition or a version that no run can have."""
    for name, said in place.items():
        if said is not None:
            check_text(name, said)
    queue_name = place.get("queue_name")
    if queue_name not in (None, INTERNAL_QUEUE):
        check_name(queue_name)  # nobody would claim a run from another queue of ours


def _moment(delay: Duration | None, delay_until: datetime | None) -> tuple[int | None, int | None]:
    """Return the moment in milliseconds since the epoch, or the delay in milliseconds."""
    if delay is not None and delay_until is None:
        return None, milliseconds(delay, "delay")
    if delay is not None or delay_until is None:
        raise MisuseError("Say when: either the delay or delay_until, and not both.")
    return milliseconds_of(checked_moment(delay_until, "delay_until")), None
