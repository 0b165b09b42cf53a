"""Where the running code stands: outside of any run, in a branch of a workflow, or inside a step."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING

from holdfast.errors import MisuseError

if TYPE_CHECKING:
    from holdfast.core.identity import Branch
    from holdfast.workflows.run import Run


class WorkflowPlace:
    """Code of a workflow: its run, its branch, and the task or thread the branch belongs to."""

    __slots__ = ("branch", "owner", "run")

    def __init__(self, run: Run, branch: Branch, owner: object) -> None:
        self.run = run
        self.branch = branch
        self.owner = owner


class StepPlace:
    """Code of a step: what it calls is not recorded. *closed* once the attempt is over, timed out or not."""

    __slots__ = ("attempt", "closed", "identity", "position", "run")

    def __init__(self, run: Run, identity: str, position: int, attempt: int) -> None:
        self.run = run
        self.identity = identity
        self.position = position
        self.attempt = attempt
        self.closed = False


here: ContextVar[WorkflowPlace | StepPlace | None] = ContextVar("holdfast_place", default=None)


def task_place() -> WorkflowPlace | None:
    """Return the place of the current task in a workflow, opening a branch for a task that has none; else None.

    A task that asyncio made inherits its parent's place. It becomes a branch of its own at its first operation, in
    the order of first operations.
    """
    place = here.get()
    if not isinstance(place, WorkflowPlace):
        return None
    task = asyncio.current_task()
    if place.owner is not task:
        place = WorkflowPlace(place.run, place.branch.open(), task)
        here.set(place)
    return place


def thread_place() -> WorkflowPlace | None:
    """Return the place of the current thread in a workflow, or None; refuse where waiting would block the loop."""
    place = here.get()
    if not isinstance(place, WorkflowPlace):
        return None
    ident = threading.get_ident()
    if place.owner != ident:
        if isinstance(place.owner, int):
            place = WorkflowPlace(place.run, place.branch.open(), ident)
            here.set(place)
            return place
        raise MisuseError(
            "A blocking durable call was made in an async workflow, where it would stop the event loop; "
            "make the step async, or await app.run_step(step, ...)."
        )
    return place
