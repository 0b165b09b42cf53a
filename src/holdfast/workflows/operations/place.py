"""Where the running code stands: outside of any run, in a branch of a workflow, or inside a step."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from msgspec import Struct

from holdfast.errors import MisuseError, StepTimeout, Superseded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.core.identity import Branch
    from holdfast.workflows.declaring.registry import Definition, StepDefinition
    from holdfast.workflows.engine.engine import Engine
    from holdfast.workflows.operations.voice import Voice
    from holdfast.workflows.running.run import Run


class PartOver(Superseded):
    """The time of a part of the workflow is over: nothing more is done in it. The run itself goes on."""


class WorkflowPlace:
    """Code of a workflow: its run, its branch, and the task or thread the branch belongs to.

    *interrupted* if the task was cancelled while an operation was being recorded: the outcome was delivered, and the
    cancellation is still due, at the next operation or before it waits. *position* is that of the operation that was
    begun last.
    """

    __slots__ = ("_is_first_here", "branch", "interrupted", "owner", "position", "run")

    def __init__(self, run: Run, branch: Branch, owner: object) -> None:
        self.run = run
        self.branch = branch
        self.owner = owner
        self.interrupted = False
        self.position = 0
        self._is_first_here = False

    def check(self) -> None:
        """Raise if this execution, or this branch of it, must go no further."""
        self.run.check()
        if self.branch.is_closed:
            raise PartOver("the time of this part of the workflow is over")

    @contextmanager
    def halting(self, tell: Callable[[], object]) -> Iterator[None]:
        """Have *tell* called if this execution, or this branch of it, is to go no further; from any thread.

        Whoever waits in here is woken by it, and calls ``check`` afterwards.
        """
        self.run.on_halt(tell)
        self.branch.on_close(tell)
        try:
            yield
        finally:
            self.branch.off_close(tell)
            self.run.off_halt(tell)

    def position_ahead(self) -> int:
        """Return the lowest position of what comes from here on, in this branch or in one it opens later."""
        recorded = (self.run.history or {}).items()
        ahead = (each.position for identity, each in recorded if self.branch.is_ahead(identity))
        return min(ahead, default=self.run.next_position)

    def has_been_passed(self) -> bool:
        """Whether the record holds anything that comes after this place: an earlier execution has been here."""
        if not self._is_first_here:
            recorded = self.run.history or ()
            self._is_first_here = not any(map(self.branch.is_ahead, recorded))  # and then it stays so
        return not self._is_first_here

    def check_before_wait(self) -> None:
        """Raise what came before a wait begins, which the wait would not be woken by: a cancellation, or a stop."""
        if self.interrupted:
            self.raise_interruption()
        self.check()

    def raise_interruption(self) -> None:
        """Raise a cancellation that is still due, unless the block it belonged to has ended in the meantime."""
        self.interrupted = False
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError


class StepPlace(Struct, eq=False):
    """Code of a step *within* a workflow: what it calls is not recorded.

    *closed* once the attempt is over, timed out or not. What it writes waits in *voice*, if it has said anything, until
    the attempt has succeeded; see ``voice.py``.
    """

    within: WorkflowPlace
    run: Run
    identity: str
    position: int
    attempt: int
    closed: bool = False
    voice: Voice | None = None


class Inside:
    """The function of a transaction, while its transaction is open: it may call nothing of its application."""

    __slots__ = ("engine", "is_open", "name")

    def __init__(self, engine: Engine, name: str) -> None:
        self.engine = engine
        self.name = name
        self.is_open = True


here: ContextVar[WorkflowPlace | StepPlace | None] = ContextVar("holdfast_place", default=None)
inside: ContextVar[Inside | None] = ContextVar("holdfast_transaction", default=None)


def refuse_in_transaction(engine: Engine) -> None:
    """Raise inside an open transaction of *engine*: on SQLite, which has one writer, the call would wait for itself."""
    found = inside.get()
    if found is not None and found.is_open and found.engine is engine:
        raise MisuseError(
            f"The transaction {found.name!r} called a step, a workflow, a transaction or another verb of its "
            "application, whose record could not commit with it. Do that before or after the transaction."
        )


def task_place(engine: Engine) -> WorkflowPlace | None:
    """Return the place of the current task in a workflow of *engine*, opening a branch for a task that has none.

    None elsewhere, in a workflow of another application too: what is called from there is a plain call. A task that
    asyncio made inherits its parent's place. It becomes a branch of its own at its first operation, in the order of
    first operations.
    """
    if inside.get() is not None:
        refuse_in_transaction(engine)
    place = here.get()
    if not isinstance(place, WorkflowPlace) or place.run.engine is not engine:
        return None
    # On the engine's own loop asyncio need not ask the system which loop it is.
    task = asyncio.current_task(engine.loop_here())
    if place.owner is not task:
        place = WorkflowPlace(place.run, place.branch.open(), task)
        here.set(place)
        if task is not None:
            run, branch = place.run, place.branch
            run.waits().opened(branch)
            task.add_done_callback(lambda _: run.engine.parker.branch_ended(run, branch))
    return place


def thread_place(engine: Engine) -> WorkflowPlace | None:
    """Return the place of the current thread in a workflow of *engine*; refuse where waiting would block the loop."""
    refuse_in_transaction(engine)
    place = here.get()
    if not isinstance(place, WorkflowPlace) or place.run.engine is not engine:
        return None
    ident = threading.get_ident()
    if place.owner != ident:
        if isinstance(place.owner, int):
            place = WorkflowPlace(place.run, place.branch.open(), ident)
            here.set(place)
            place.run.waits().opened(place.branch, thread=threading.current_thread())
            return place
        raise MisuseError(
            "A blocking durable call was made in an async workflow, where it would stop the event loop; "
            "make the step async, or await app.run_step(step, ...)."
        )
    return place


def refuse_unawaited(engine: Engine, called: Definition | StepDefinition, remedy: str) -> None:
    """Raise where a coroutine is made on the thread of a sync workflow: nobody awaits it there, and nothing is done."""
    place = here.get()
    if isinstance(place, WorkflowPlace) and not place.run.definition.is_async and place.run.engine is engine:
        raise MisuseError(
            f"{called.name!r} is async and was called in a sync workflow, where nothing awaits it: {remedy}, or make "
            "the workflow async."
        )


def is_in_step(engine: Engine) -> bool:
    """Whether the running code is in a step of a workflow of *engine*."""
    place = here.get()
    return isinstance(place, StepPlace) and place.run.engine is engine


def refuse_closed_attempt() -> None:
    """Raise in a thread that a step's timeout has left behind: one attempt has one voice, and this one's is over."""
    place = here.get()
    if isinstance(place, StepPlace) and place.closed:
        raise StepTimeout(
            f"Attempt {place.attempt} of operation {place.identity} of run {place.run.id} is over, and this thread was "
            "left behind: it can start no run and change nothing any more."
        )
