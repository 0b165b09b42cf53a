"""How an application replays dead letters: by the handlers that were registered, and runs by going on with them."""

from __future__ import annotations

from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, TypeAlias

from holdfast.core.functions import makes_coroutine, makes_generator
from holdfast.errors import ConfigurationError, MisuseError, ReplayRefused, WorkflowNotFound
from holdfast.model.workflow import WorkflowStatus
from holdfast.resilience.colour import name_of
from holdfast.resilience.letters import SEALED
from holdfast.resilience.replay_arguments import Arguments
from holdfast.workflows.declaring.functions import AsyncWorkflow, Workflow
from holdfast.workflows.declaring.steps import Step
from holdfast.workflows.ownership.obstacles import version_gone
from holdfast.workflows.running.ticket import Ticket, call_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.model.dead_letter import FailedOperationData
    from holdfast.model.workflow import Changes
    from holdfast.resilience.handlers import Handle
    from holdfast.workflows.engine.engine import Engine

    AnyWorkflow: TypeAlias = Workflow[Any, Any, Any] | AsyncWorkflow[Any, Any, Any]

_ROUNDS = 5
_TO_BE_CLAIMED = frozenset(
    {
        WorkflowStatus.ERROR,
        WorkflowStatus.MAX_RECOVERY_ATTEMPTS_EXCEEDED,
        WorkflowStatus.ENQUEUED,
        WorkflowStatus.DELAYED,
    }
)


class RunReplays:
    """Replays letters of runs and of their steps: the run goes on, and the letter waits for its outcome.

    So a letter is resolved when its run has succeeded. A process that dies meanwhile loses the letter, not the run:
    the next replay finds it under way, or ended.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def handler_of(self, letter: FailedOperationData) -> Handle | None:
        """Return who replays *letter*: the handler of its domain, or this, if it is of a run."""
        handler = self._engine.handlers.of(letter.domain)
        if handler is not None and SEALED in letter.request_data:
            return partial(self._open_for, handler)
        if handler is None and letter.workflow_id is not None and "way_back" in letter.metadata:
            return self.replay
        return handler

    async def _open_for(self, handler: Handle, letter: FailedOperationData) -> Any:
        return await handler(self._engine.sealing.opened(letter))

    async def replay(self, letter: FailedOperationData) -> None:
        """Let the run of *letter* go on, and wait for its end; raises what it ends with."""
        run_id = letter.workflow_id or ""
        state = await self._engine.desk.looking.get(run_id, load_input=False, load_output=False)
        if state.status is WorkflowStatus.CANCELLED:
            raise ReplayRefused(
                f"The run {run_id} was cancelled after it had failed: resume it, or resolve its letter, {letter.id}."
            )
        await self.go_on(run_id, letter)
        if letter.entity_type == "step":
            await self._check_done(letter, run_id)

    async def _check_done(self, letter: FailedOperationData, run_id: str) -> None:
        """Raise if the run has succeeded without the step that failed: its workflow went on with the error."""
        steps = await self._engine.desk.looking.steps(run_id)
        if any(f"{run_id}#{each.identity}" == letter.entity_id and each.error is not None for each in steps):
            raise ReplayRefused(
                f"The run {run_id} went on without the step that failed, and has succeeded: register a replay handler "
                f"of {letter.domain!r} to do the step by itself."
            )

    async def go_on(self, run_id: str, letter: FailedOperationData | None = None) -> None:
        """Send a run on its way if it has ended badly, from what failed, as *letter* may say; wait for its end."""
        for _ in range(_ROUNDS):
            if await self._sent_on(run_id, letter):
                break
        self._engine.work_released()
        await self.end_of(Ticket(run_id, self._engine.payloads.plain, None))

    async def end_of(self, ticket: Ticket) -> None:
        """Wait for the end of a run; raises what it ends with."""
        (await self._engine.waiting.outcome(ticket)).get()

    async def _sent_on(self, run_id: str, letter: FailedOperationData | None) -> bool:
        """Send the run on its way, if it has ended badly; False if it was changed at the same moment."""
        desk = self._engine.desk
        state = await desk.looking.get(run_id, load_input=False, load_output=False)
        if state.status in _TO_BE_CLAIMED:
            await self._check_version(run_id)
        if state.status is WorkflowStatus.MAX_RECOVERY_ATTEMPTS_EXCEEDED:
            return _is_changed(await desk.control.resume([run_id]), run_id)
        if state.status is not WorkflowStatus.ERROR:
            return True
        start_step = None if letter is None else _start_step_of(letter, state.generation)
        if start_step is None:
            start_step = await self._failed_at(run_id)
        return _is_changed(await desk.control.rewind([run_id], start_step), run_id)

    async def _check_version(self, run_id: str) -> None:
        """Raise if nobody would claim the run: its letter would be held, and this replay wait, for ever."""
        engine = self._engine
        here = engine.executor.application_version, *engine.settings.compatible_versions
        version = await version_gone(engine.manager, engine.queries, run_id, here)
        if version is not None:
            raise ReplayRefused(
                f"The run {run_id} is of the application version {version}, which no living process has: name it in "
                "compatible_versions, or rewind the run with another application_version; then replay its letter."
            )

    async def _failed_at(self, run_id: str) -> int:
        """Return the first operation that failed; behind the last, if none did and its own code raised."""
        steps = await self._engine.desk.looking.steps(run_id)
        last = max((each.function_id for each in steps), default=0)
        return next((each.function_id for each in steps if each.error is not None), last + 1)


def _start_step_of(letter: FailedOperationData, generation: int) -> int | None:
    """Return what a letter of a run says of where it failed, if it has not run again since.

    If it has, as after a replay of another of its letters, what failed then may have succeeded, and what follows it.
    """
    is_of_now = letter.metadata.get("generation") == generation
    return letter.metadata.get("start_step") if is_of_now else None


def _is_changed(changes: Changes, run_id: str) -> bool:
    refused = changes.refused.get(run_id)
    if isinstance(refused, WorkflowNotFound):
        raise refused
    return refused is None


def handle_for(engine: Engine, handler: Callable[..., Any], *, with_arguments: bool | None) -> Handle:
    """Return how *handler* is called with a letter.

    A workflow or a step gets the arguments that the letter keeps, and so does a function if *with_arguments*; else a
    function gets the letter. ``ConfigurationError`` for a generator function: letters would be resolved unread.
    """
    if isinstance(handler, (Workflow, AsyncWorkflow)):
        return _by_workflow(engine, handler)
    if isinstance(handler, Step):
        function, takes_arguments = handler.definition.function, True
    elif callable(handler):
        function, takes_arguments = handler, bool(with_arguments)
    else:
        raise MisuseError(f"A replay handler is a function, a workflow or a step, not a {type(handler).__name__}.")
    if makes_generator(function):
        raise ConfigurationError(
            f"A replay handler cannot be the generator function {name_of(function)}, whose calls do nothing yet: "
            "have it return when the letter is put right."
        )
    plain = engine.handlers.handle_of(function)
    if not takes_arguments:
        return plain
    return _by_arguments(engine, function)


def _by_arguments(engine: Engine, function: Callable[..., Any]) -> Handle:
    is_async = makes_coroutine(function)
    arguments = Arguments(function)

    async def handle(letter: FailedOperationData) -> Any:
        args, kwargs = arguments.of(letter)
        made = function(*args, **kwargs) if is_async else await engine.handlers.on_thread(function, *args, **kwargs)
        return await made if isawaitable(made) else made

    return handle


def _by_workflow(engine: Engine, workflow: AnyWorkflow) -> Handle:
    """Return how a workflow replays letters: one run each. What failed in it is done again by the next replay.

    A letter of one of its own runs lets that run go on: a new one could fail too, and make a letter, without end.
    """
    definition = workflow.definition
    arguments = Arguments(definition.function, skip=0 if definition.binds == "nothing" else 1)

    async def handle(letter: FailedOperationData) -> None:
        if "way_back" in letter.metadata and letter.metadata.get("workflow") == definition.name:
            await engine.run_replays.replay(letter)
            return
        args, kwargs = arguments.of(letter)
        chosen = workflow.options(workflow_id=_run_of(letter)).call(*args, **kwargs)
        ticket = await engine.starts.start(call_of(chosen))
        if ticket.run is None:
            await engine.run_replays.go_on(ticket.workflow_id)
        else:
            await engine.run_replays.end_of(ticket)

    return handle


def _run_of(letter: FailedOperationData) -> str:
    """Return the id of the run that replays *letter*; if it was resolved before, by a run that ended, another one."""
    before = "" if letter.resolved_at is None else f"-{round(letter.resolved_at.timestamp() * 1000)}"
    return f"replay-{letter.id}{before}"


__all__ = ["RunReplays", "handle_for"]
