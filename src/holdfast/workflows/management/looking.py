"""Looking at runs, documents of them and pruning: the methods that applications and clients have alike.

A part of ``management.py``, and made in the same way.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack

from holdfast.workflows.management import desk
from holdfast.workflows.management.asking import Asking, AsyncAsking

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from holdfast.model.workflow import ApplicationVersion, Duration, ExecutorState, StepState, WorkflowState
    from holdfast.workflows.looking import Page, WorkflowCount
    from holdfast.workflows.looking.transfer import OnConflict
    from holdfast.workflows.management.desk import FilterOptions
    from holdfast.workflows.retention import PruneReport, Retention

H = TypeVar("H")


class AsyncLookingManagement(AsyncAsking, Generic[H]):
    """What can be asked about runs; awaited."""

    @abstractmethod
    def retrieve_workflow(self, workflow_id: str) -> H:
        """Return a handle of a run by its id; its result comes back as plain JSON values."""

    async def list_workflows(
        self,
        *,
        limit: int = 100,
        newest_first: bool = True,
        cursor: str | None = None,
        load_input: bool = False,
        load_output: bool = False,
        **filters: Unpack[FilterOptions],
    ) -> Page[WorkflowState]:
        """Return runs that match all *filters*, newest first; pass the page's ``cursor`` for those that follow."""
        request = desk.list_runs(
            filters,
            limit=limit,
            newest_first=newest_first,
            cursor=cursor,
            load_input=load_input,
            load_output=load_output,
        )
        return (await self._manage(request)).page()

    async def get_workflow(
        self, workflow_id: str, *, load_input: bool = True, load_output: bool = True
    ) -> WorkflowState:
        """Return where a run stands; ``WorkflowNotFound`` if there is none of this id."""
        return await self._manage(desk.get_run(workflow_id, load_input=load_input, load_output=load_output))

    async def list_steps(
        self, workflow_id: str, *, load_output: bool = True, limit: int | None = None, offset: int = 0
    ) -> list[StepState]:
        """Return what a run has recorded, by position; ``WorkflowNotFound`` if there is none of this id."""
        return await self._manage(desk.list_steps(workflow_id, load_output=load_output, limit=limit, offset=offset))

    async def count_workflows(
        self, *, group_by: Sequence[str] = ("status",), bucket: Duration | None = None, **filters: Unpack[FilterOptions]
    ) -> list[WorkflowCount]:
        """Count the runs that match all *filters*, by columns, and by spans of time as long as *bucket*."""
        return [each.counted() for each in await self._manage(desk.count(filters, group_by, bucket))]

    async def export_workflow(self, workflow_id: str) -> dict[str, Any]:
        """Return a run and what it has recorded as a document that JSON can hold; payloads as they are stored."""
        return await self._manage(desk.export_run(workflow_id))

    async def import_workflow(
        self, document: Mapping[str, Any], *, workflow_id: str | None = None, on_conflict: OnConflict = "reject"
    ) -> H:
        """Make a run of a document that ``export_workflow`` gave; one that had not ended goes on here.

        Raises ``WorkflowConflict`` if the id is taken, unless *on_conflict* is ``"return_existing"``.
        """
        return self.retrieve_workflow(await self._manage(desk.import_run(document, workflow_id, on_conflict)))

    async def prune(
        self, *policies: Retention, dry_run: bool = False, progress: Callable[[int], None] | None = None
    ) -> PruneReport:
        """Delete the ended runs that *policies* let go, in small batches; with *dry_run* only count them.

        *progress* is called with the number of runs after each batch.
        """
        return (await self._manage(desk.prune(policies, dry_run=dry_run, progress=progress))).report(policies)

    async def list_executors(self) -> list[ExecutorState]:
        """Return the processes that run workflows, and when each was heard of last."""
        return await self._manage(desk.executors())

    async def list_application_versions(self) -> list[ApplicationVersion]:
        """Return all versions that have registered, newest first."""
        return await self._manage(desk.versions())

    async def get_latest_application_version(self) -> ApplicationVersion:
        """Return the version that was registered or set as latest last."""
        return await self._manage(desk.latest_version())

    async def set_latest_application_version(self, version_name: str) -> None:
        """Make a registered version the latest."""
        await self._manage(desk.set_latest_version(version_name))


class LookingManagement(Asking, Generic[H]):
    """What can be asked about runs; blocking."""

    @abstractmethod
    def retrieve_workflow(self, workflow_id: str) -> H:
        """Return a handle of a run by its id; its result comes back as plain JSON values."""

    def list_workflows(
        self,
        *,
        limit: int = 100,
        newest_first: bool = True,
        cursor: str | None = None,
        load_input: bool = False,
        load_output: bool = False,
        **filters: Unpack[FilterOptions],
    ) -> Page[WorkflowState]:
        """Return runs that match all *filters*, newest first; pass the page's ``cursor`` for those that follow."""
        request = desk.list_runs(
            filters,
            limit=limit,
            newest_first=newest_first,
            cursor=cursor,
            load_input=load_input,
            load_output=load_output,
        )
        return self._manage(request).page()

    def get_workflow(self, workflow_id: str, *, load_input: bool = True, load_output: bool = True) -> WorkflowState:
        """Return where a run stands; ``WorkflowNotFound`` if there is none of this id."""
        return self._manage(desk.get_run(workflow_id, load_input=load_input, load_output=load_output))

    def list_steps(
        self, workflow_id: str, *, load_output: bool = True, limit: int | None = None, offset: int = 0
    ) -> list[StepState]:
        """Return what a run has recorded, by position; ``WorkflowNotFound`` if there is none of this id."""
        return self._manage(desk.list_steps(workflow_id, load_output=load_output, limit=limit, offset=offset))

    def count_workflows(
        self, *, group_by: Sequence[str] = ("status",), bucket: Duration | None = None, **filters: Unpack[FilterOptions]
    ) -> list[WorkflowCount]:
        """Count the runs that match all *filters*, by columns, and by spans of time as long as *bucket*."""
        return [each.counted() for each in self._manage(desk.count(filters, group_by, bucket))]

    def export_workflow(self, workflow_id: str) -> dict[str, Any]:
        """Return a run and what it has recorded as a document that JSON can hold; payloads as they are stored."""
        return self._manage(desk.export_run(workflow_id))

    def import_workflow(
        self, document: Mapping[str, Any], *, workflow_id: str | None = None, on_conflict: OnConflict = "reject"
    ) -> H:
        """Make a run of a document that ``export_workflow`` gave; one that had not ended goes on here.

        Raises ``WorkflowConflict`` if the id is taken, unless *on_conflict* is ``"return_existing"``.
        """
        return self.retrieve_workflow(self._manage(desk.import_run(document, workflow_id, on_conflict)))

    def prune(
        self, *policies: Retention, dry_run: bool = False, progress: Callable[[int], None] | None = None
    ) -> PruneReport:
        """Delete the ended runs that *policies* let go, in small batches; with *dry_run* only count them.

        *progress* is called with the number of runs after each batch.
        """
        return self._manage(desk.prune(policies, dry_run=dry_run, progress=progress)).report(policies)

    def list_executors(self) -> list[ExecutorState]:
        """Return the processes that run workflows, and when each was heard of last."""
        return self._manage(desk.executors())

    def list_application_versions(self) -> list[ApplicationVersion]:
        """Return all versions that have registered, newest first."""
        return self._manage(desk.versions())

    def get_latest_application_version(self) -> ApplicationVersion:
        """Return the version that was registered or set as latest last."""
        return self._manage(desk.latest_version())

    def set_latest_application_version(self, version_name: str) -> None:
        """Make a registered version the latest."""
        self._manage(desk.set_latest_version(version_name))
