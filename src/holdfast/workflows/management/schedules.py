"""Looking at schedules and changing them from outside: the methods that applications and clients have alike.

A part of ``management.py``, and made in the same way.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from holdfast.workflows.management.asking import Asking, AsyncAsking
from holdfast.workflows.schedules import ScheduleSpec, requests

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from holdfast.core.options import OnConflict
    from holdfast.model.schedule import Overlap, Schedule, ScheduleStatus
    from holdfast.model.workflow import Duration
    from holdfast.workflows.declaring.functions import AsyncWorkflow, Workflow

H = TypeVar("H")


class AsyncScheduleManagement(AsyncAsking, Generic[H]):
    """What can be asked about schedules and done to them; awaited."""

    @abstractmethod
    def retrieve_workflow(self, workflow_id: str) -> H:
        """Return a handle of a run by its id; its result comes back as plain JSON values."""

    async def create_schedule(
        self,
        name: str,
        workflow: Workflow[..., Any, Any] | AsyncWorkflow[..., Any, Any] | str,
        schedule: str,
        *,
        context: Any = None,
        cron_timezone: str | None = None,
        queue_name: str | None = None,
        automatic_backfill: bool = False,
        jitter: Duration = 0,
        overlap: Overlap = "allow",
        on_conflict: OnConflict = "update",
    ) -> Schedule:
        """Run a workflow, by itself or by its name, at every slot of the cron expression *schedule*.

        It is called with ``(scheduled_at, context)``, or with as much of that as it takes. One that is there is set so;
        ``on_conflict="keep"`` leaves it, ``"reject"`` raises ``ScheduleConflict``. ``InvalidSchedule`` names the place
        of a mistake in the expression or the zone; ``QueueNotFound`` if there is no such queue.
        """
        spec = ScheduleSpec(
            name,
            workflow,
            schedule,
            context=context,
            cron_timezone=cron_timezone,
            queue_name=queue_name,
            automatic_backfill=automatic_backfill,
            jitter=jitter,
            overlap=overlap,
        )
        return await self._manage(requests.create_schedule(spec, on_conflict))

    async def apply_schedules(self, schedules: Iterable[ScheduleSpec]) -> list[Schedule]:
        """Make these the schedules of the database, all at once: made or set as said, and all others deleted."""
        return await self._manage(requests.apply_schedules(schedules))

    async def list_schedules(
        self,
        *,
        status: ScheduleStatus | str | None = None,
        workflow_name: str | None = None,
        schedule_name_prefix: str | None = None,
    ) -> list[Schedule]:
        """Return schedules by name: all, or those that fit."""
        return await self._manage(requests.list_schedules(status, workflow_name, schedule_name_prefix))

    async def get_schedule(self, name: str) -> Schedule | None:
        """Return a schedule as it is now; None if there is none of this name."""
        return await self._manage(requests.get_schedule(name))

    async def pause_schedule(self, name: str) -> None:
        """Have a schedule fire no more; ``ScheduleNotFound`` if there is none."""
        await self._manage(requests.pause_schedule("pause_schedule", name, paused=True))

    async def resume_schedule(self, name: str) -> None:
        """Have a paused schedule fire again, from its next slot on; ``ScheduleNotFound`` if there is none."""
        await self._manage(requests.pause_schedule("resume_schedule", name, paused=False))

    async def delete_schedule(self, name: str) -> None:
        """Delete a schedule; the runs it has made stay. ``ScheduleNotFound`` if there is none."""
        await self._manage(requests.delete_schedule(name))

    async def trigger_schedule(self, name: str) -> H:
        """Enqueue a run of a schedule's workflow now, paused or not; ``ScheduleNotFound`` if there is none."""
        return self.retrieve_workflow(await self._manage(requests.trigger_schedule(name)))

    async def backfill_schedule(self, name: str, start: datetime, end: datetime) -> list[H]:
        """Fire the slots from *start* on and before *end*, which lies in the past; return their runs in order.

        A slot that has fired keeps its run, so that this may be repeated. ``ScheduleNotFound`` if there is none.
        """
        ids = await self._manage(requests.backfill_schedule(name, start, end))
        return [self.retrieve_workflow(each) for each in ids]


class ScheduleManagement(Asking, Generic[H]):
    """What can be asked about schedules and done to them; blocking."""

    @abstractmethod
    def retrieve_workflow(self, workflow_id: str) -> H:
        """Return a handle of a run by its id; its result comes back as plain JSON values."""

    def create_schedule(
        self,
        name: str,
        workflow: Workflow[..., Any, Any] | AsyncWorkflow[..., Any, Any] | str,
        schedule: str,
        *,
        context: Any = None,
        cron_timezone: str | None = None,
        queue_name: str | None = None,
        automatic_backfill: bool = False,
        jitter: Duration = 0,
        overlap: Overlap = "allow",
        on_conflict: OnConflict = "update",
    ) -> Schedule:
        """Run a workflow, by itself or by its name, at every slot of the cron expression *schedule*.

        It is called with ``(scheduled_at, context)``, or with as much of that as it takes. One that is there is set so;
        ``on_conflict="keep"`` leaves it, ``"reject"`` raises ``ScheduleConflict``. ``InvalidSchedule`` names the place
        of a mistake in the expression or the zone; ``QueueNotFound`` if there is no such queue.
        """
        spec = ScheduleSpec(
            name,
            workflow,
            schedule,
            context=context,
            cron_timezone=cron_timezone,
            queue_name=queue_name,
            automatic_backfill=automatic_backfill,
            jitter=jitter,
            overlap=overlap,
        )
        return self._manage(requests.create_schedule(spec, on_conflict))

    def apply_schedules(self, schedules: Iterable[ScheduleSpec]) -> list[Schedule]:
        """Make these the schedules of the database, all at once: made or set as said, and all others deleted."""
        return self._manage(requests.apply_schedules(schedules))

    def list_schedules(
        self,
        *,
        status: ScheduleStatus | str | None = None,
        workflow_name: str | None = None,
        schedule_name_prefix: str | None = None,
    ) -> list[Schedule]:
        """Return schedules by name: all, or those that fit."""
        return self._manage(requests.list_schedules(status, workflow_name, schedule_name_prefix))

    def get_schedule(self, name: str) -> Schedule | None:
        """Return a schedule as it is now; None if there is none of this name."""
        return self._manage(requests.get_schedule(name))

    def pause_schedule(self, name: str) -> None:
        """Have a schedule fire no more; ``ScheduleNotFound`` if there is none."""
        self._manage(requests.pause_schedule("pause_schedule", name, paused=True))

    def resume_schedule(self, name: str) -> None:
        """Have a paused schedule fire again, from its next slot on; ``ScheduleNotFound`` if there is none."""
        self._manage(requests.pause_schedule("resume_schedule", name, paused=False))

    def delete_schedule(self, name: str) -> None:
        """Delete a schedule; the runs it has made stay. ``ScheduleNotFound`` if there is none."""
        self._manage(requests.delete_schedule(name))

    def trigger_schedule(self, name: str) -> H:
        """Enqueue a run of a schedule's workflow now, paused or not; ``ScheduleNotFound`` if there is none."""
        return self.retrieve_workflow(self._manage(requests.trigger_schedule(name)))

    def backfill_schedule(self, name: str, start: datetime, end: datetime) -> list[H]:
        """Fire the slots from *start* on and before *end*, which lies in the past; return their runs in order.

        A slot that has fired keeps its run, so that this may be repeated. ``ScheduleNotFound`` if there is none.
        """
        ids = self._manage(requests.backfill_schedule(name, start, end))
        return [self.retrieve_workflow(each) for each in ids]
