"""Changing runs from outside: the methods that applications and clients have alike. Looking is a part of its own.

Each colour says here what it does and nothing of how: a request (``desk.py``) goes to the seam ``_manage``. An
application makes it a recorded operation where a workflow asks; a client carries it out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack

from holdfast.workflows.management import desk
from holdfast.workflows.management.looking import AsyncLookingManagement, LookingManagement
from holdfast.workflows.management.messages import AsyncMessageManagement, MessageManagement
from holdfast.workflows.management.queues import AsyncQueueManagement, QueueManagement
from holdfast.workflows.management.schedules import AsyncScheduleManagement, ScheduleManagement
from holdfast.workflows.management.streams import AsyncStreamManagement, StreamManagement

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from holdfast.model.workflow import Changes, Duration
    from holdfast.workflows.management.desk import Place

H = TypeVar("H")


class AsyncManagement(
    AsyncLookingManagement[H],
    AsyncQueueManagement,
    AsyncScheduleManagement[H],
    AsyncStreamManagement,
    AsyncMessageManagement,
    Generic[H],
):
    """What can be asked about runs and done to them; awaited."""

    async def cancel_workflow(self, workflow_id: str, *, cancel_children: bool = True) -> None:
        """Cancel a run that has not ended, and its children; raise ``TransitionRefused`` or ``WorkflowNotFound``.

        From the commit on it writes nothing more. An async step is interrupted, a sync one goes on to its end unseen.
        """
        request = desk.cancel("cancel_workflow", [workflow_id], children=cancel_children)
        (await self._manage(request)).changes().raise_refused()

    async def cancel_workflows(self, workflow_ids: Iterable[str], *, cancel_children: bool = True) -> Changes:
        """Cancel runs that have not ended, and their children; return which were, and why the others were not."""
        return (await self._manage(desk.cancel("cancel_workflows", workflow_ids, children=cancel_children))).changes()

    async def resume_workflow(
        self, workflow_id: str, *, queue_name: str | None = None, queue_partition_key: str | None = None
    ) -> H:
        """Let a cancelled run, or one that was given up, go on where it stopped; without a deadline.

        Raises ``TransitionRefused`` or ``WorkflowNotFound``.
        """
        request = desk.resume("resume_workflow", [workflow_id], queue_name, queue_partition_key)
        (await self._manage(request)).changes().raise_refused()
        return self.retrieve_workflow(workflow_id)

    async def resume_workflows(
        self, workflow_ids: Iterable[str], *, queue_name: str | None = None, queue_partition_key: str | None = None
    ) -> Changes:
        """Let cancelled runs, and those that were given up, go on where they stopped; without a deadline."""
        request = desk.resume("resume_workflows", workflow_ids, queue_name, queue_partition_key)
        return (await self._manage(request)).changes()

    async def fork_workflow(
        self, workflow_id: str, start_step: int = 1, *, new_workflow_id: str | None = None, **place: Unpack[Place]
    ) -> H:
        """Start a new run that has what this one had recorded before *start_step*; this one stays as it is.

        Raises ``WorkflowNotFound``, or ``WorkflowConflict`` if *new_workflow_id* is taken.
        """
        new_ids = None if new_workflow_id is None else [new_workflow_id]
        made = await self._manage(desk.fork("fork_workflow", [workflow_id], start_step, place, new_ids))
        return self.retrieve_workflow(next(iter(made.values())))

    async def fork_workflows(self, workflow_ids: Iterable[str], start_step: int = 1, **place: Unpack[Place]) -> list[H]:
        """Fork several runs, all or none; return the handles of the new ones in the order of the old."""
        made = await self._manage(desk.fork("fork_workflows", workflow_ids, start_step, place))
        return [self.retrieve_workflow(new_id) for new_id in made.values()]

    async def rewind_workflow(self, workflow_id: str, start_step: int = 1, **place: Unpack[Place]) -> H:
        """Run an ended run again, under its id, from *start_step* on; what it recorded from there on is forgotten.

        Raises ``TransitionRefused`` or ``WorkflowNotFound``.
        """
        (await self._manage(desk.rewind("rewind_workflow", [workflow_id], start_step, place))).changes().raise_refused()
        return self.retrieve_workflow(workflow_id)

    async def rewind_workflows(
        self, workflow_ids: Iterable[str], start_step: int = 1, **place: Unpack[Place]
    ) -> Changes:
        """Run ended runs again, under their ids, from *start_step* on."""
        return (await self._manage(desk.rewind("rewind_workflows", workflow_ids, start_step, place))).changes()

    async def delete_workflow(self, workflow_id: str, *, delete_children: bool = False) -> None:
        """Delete an ended run and what it recorded; not while its parent goes on.

        Raises ``TransitionRefused`` or ``WorkflowNotFound``. Whoever waits for the run gets ``WorkflowNotFound``.
        """
        request = desk.delete("delete_workflow", [workflow_id], children=delete_children)
        (await self._manage(request)).changes().raise_refused()

    async def delete_workflows(self, workflow_ids: Iterable[str], *, delete_children: bool = False) -> Changes:
        """Delete ended runs and what they recorded; return which were, and why the others were not."""
        return (await self._manage(desk.delete("delete_workflows", workflow_ids, children=delete_children))).changes()

    async def set_workflow_delay(
        self, workflow_id: str, delay: Duration | None = None, *, delay_until: datetime | None = None
    ) -> None:
        """Have a delayed run that was never begun begin after *delay*, from now, or at *delay_until*.

        Raises ``TransitionRefused`` or ``WorkflowNotFound``.
        """
        request = desk.set_delay("set_workflow_delay", [workflow_id], delay, delay_until)
        (await self._manage(request)).changes().raise_refused()

    async def set_workflow_delays(
        self, workflow_ids: Iterable[str], delay: Duration | None = None, *, delay_until: datetime | None = None
    ) -> Changes:
        """Have delayed runs that were never begun begin after *delay*, from now, or at *delay_until*."""
        return (await self._manage(desk.set_delay("set_workflow_delays", workflow_ids, delay, delay_until))).changes()

    async def update_workflow_attributes(
        self, workflow_id: str, attributes: Mapping[str, Any] | None, *, merge: bool = False
    ) -> None:
        """Give a run these attributes, or none; with *merge* beside those it has, where None takes one away.

        Raises ``WorkflowNotFound``.
        """
        request = desk.update_attributes("update_workflow_attributes", [workflow_id], attributes, merge=merge)
        (await self._manage(request)).changes().raise_refused()

    async def update_workflows_attributes(
        self, workflow_ids: Iterable[str], attributes: Mapping[str, Any] | None, *, merge: bool = False
    ) -> Changes:
        """Give runs these attributes, or none; with *merge* beside those they have, where None takes one away."""
        request = desk.update_attributes("update_workflows_attributes", workflow_ids, attributes, merge=merge)
        return (await self._manage(request)).changes()


class Management(
    LookingManagement[H], QueueManagement, ScheduleManagement[H], StreamManagement, MessageManagement, Generic[H]
):
    """What can be asked about runs and done to them; blocking."""

    def cancel_workflow(self, workflow_id: str, *, cancel_children: bool = True) -> None:
        """Cancel a run that has not ended, and its children; raise ``TransitionRefused`` or ``WorkflowNotFound``.

        From the commit on it writes nothing more. An async step is interrupted, a sync one goes on to its end unseen.
        """
        request = desk.cancel("cancel_workflow", [workflow_id], children=cancel_children)
        self._manage(request).changes().raise_refused()

    def cancel_workflows(self, workflow_ids: Iterable[str], *, cancel_children: bool = True) -> Changes:
        """Cancel runs that have not ended, and their children; return which were, and why the others were not."""
        return self._manage(desk.cancel("cancel_workflows", workflow_ids, children=cancel_children)).changes()

    def resume_workflow(
        self, workflow_id: str, *, queue_name: str | None = None, queue_partition_key: str | None = None
    ) -> H:
        """Let a cancelled run, or one that was given up, go on where it stopped; without a deadline.

        Raises ``TransitionRefused`` or ``WorkflowNotFound``.
        """
        request = desk.resume("resume_workflow", [workflow_id], queue_name, queue_partition_key)
        self._manage(request).changes().raise_refused()
        return self.retrieve_workflow(workflow_id)

    def resume_workflows(
        self, workflow_ids: Iterable[str], *, queue_name: str | None = None, queue_partition_key: str | None = None
    ) -> Changes:
        """Let cancelled runs, and those that were given up, go on where they stopped; without a deadline."""
        request = desk.resume("resume_workflows", workflow_ids, queue_name, queue_partition_key)
        return self._manage(request).changes()

    def fork_workflow(
        self, workflow_id: str, start_step: int = 1, *, new_workflow_id: str | None = None, **place: Unpack[Place]
    ) -> H:
        """Start a new run that has what this one had recorded before *start_step*; this one stays as it is.

        Raises ``WorkflowNotFound``, or ``WorkflowConflict`` if *new_workflow_id* is taken.
        """
        new_ids = None if new_workflow_id is None else [new_workflow_id]
        made = self._manage(desk.fork("fork_workflow", [workflow_id], start_step, place, new_ids))
        return self.retrieve_workflow(next(iter(made.values())))

    def fork_workflows(self, workflow_ids: Iterable[str], start_step: int = 1, **place: Unpack[Place]) -> list[H]:
        """Fork several runs, all or none; return the handles of the new ones in the order of the old."""
        made = self._manage(desk.fork("fork_workflows", workflow_ids, start_step, place))
        return [self.retrieve_workflow(new_id) for new_id in made.values()]

    def rewind_workflow(self, workflow_id: str, start_step: int = 1, **place: Unpack[Place]) -> H:
        """Run an ended run again, under its id, from *start_step* on; what it recorded from there on is forgotten.

        Raises ``TransitionRefused`` or ``WorkflowNotFound``.
        """
        self._manage(desk.rewind("rewind_workflow", [workflow_id], start_step, place)).changes().raise_refused()
        return self.retrieve_workflow(workflow_id)

    def rewind_workflows(self, workflow_ids: Iterable[str], start_step: int = 1, **place: Unpack[Place]) -> Changes:
        """Run ended runs again, under their ids, from *start_step* on."""
        return self._manage(desk.rewind("rewind_workflows", workflow_ids, start_step, place)).changes()

    def delete_workflow(self, workflow_id: str, *, delete_children: bool = False) -> None:
        """Delete an ended run and what it recorded; not while its parent goes on.

        Raises ``TransitionRefused`` or ``WorkflowNotFound``. Whoever waits for the run gets ``WorkflowNotFound``.
        """
        request = desk.delete("delete_workflow", [workflow_id], children=delete_children)
        self._manage(request).changes().raise_refused()

    def delete_workflows(self, workflow_ids: Iterable[str], *, delete_children: bool = False) -> Changes:
        """Delete ended runs and what they recorded; return which were, and why the others were not."""
        return self._manage(desk.delete("delete_workflows", workflow_ids, children=delete_children)).changes()

    def set_workflow_delay(
        self, workflow_id: str, delay: Duration | None = None, *, delay_until: datetime | None = None
    ) -> None:
        """Have a delayed run that was never begun begin after *delay*, from now, or at *delay_until*.

        Raises ``TransitionRefused`` or ``WorkflowNotFound``.
        """
        request = desk.set_delay("set_workflow_delay", [workflow_id], delay, delay_until)
        self._manage(request).changes().raise_refused()

    def set_workflow_delays(
        self, workflow_ids: Iterable[str], delay: Duration | None = None, *, delay_until: datetime | None = None
    ) -> Changes:
        """Have delayed runs that were never begun begin after *delay*, from now, or at *delay_until*."""
        return self._manage(desk.set_delay("set_workflow_delays", workflow_ids, delay, delay_until)).changes()

    def update_workflow_attributes(
        self, workflow_id: str, attributes: Mapping[str, Any] | None, *, merge: bool = False
    ) -> None:
        """Give a run these attributes, or none; with *merge* beside those it has, where None takes one away.

        Raises ``WorkflowNotFound``.
        """
        request = desk.update_attributes("update_workflow_attributes", [workflow_id], attributes, merge=merge)
        self._manage(request).changes().raise_refused()

    def update_workflows_attributes(
        self, workflow_ids: Iterable[str], attributes: Mapping[str, Any] | None, *, merge: bool = False
    ) -> Changes:
        """Give runs these attributes, or none; with *merge* beside those they have, where None takes one away."""
        request = desk.update_attributes("update_workflows_attributes", workflow_ids, attributes, merge=merge)
        return self._manage(request).changes()
