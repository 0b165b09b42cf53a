"""Any list of callables as a flow: a checkpoint after each, a stop where one needs an answer, and no step done twice.

Each step is called with what the one before has returned, the first with the input of the flow. Only a step that has
succeeded is complete: one that failed, or was under way when the process died, runs again.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from holdfast.errors import ConfigurationError, NotFoundError, StorageError
from holdfast.model.world import RealWorld
from holdfast.stores.flow.asking import Conversation, WaitingForInput, enter
from holdfast.stores.flow.model import CheckpointBehavior, CheckpointStatus, FlowCheckpoint, NodeCheckpointState

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from holdfast.stores.flow.backend import CheckpointBackend, CheckpointClaim

Step: TypeAlias = "Callable[[Any], Any] | tuple[str, Callable[[Any], Any]]"

_ANSWERS = "answers"
_LEASE = 60.0


async def arun_steps(
    flow_id: str,
    steps: Sequence[Step],
    backend: CheckpointBackend,
    *,
    input: Any = None,  # noqa: A002 -- what users call it
    run_id: str | None = None,
    behavior: CheckpointBehavior = CheckpointBehavior.APPEND,
    metadata: Mapping[str, Any] | None = None,
) -> FlowCheckpoint:
    """Run *steps* one after the other, storing a checkpoint after each; return the last one.

    Its status says whether the flow is completed or waits for input. A step that fails is stored as failed, and its
    error is raised. Steps are named by their functions, or given as pairs of a name and a function.
    """
    named = _named(steps)
    first = FlowCheckpoint(
        flow_id=flow_id,
        run_id=run_id or RealWorld().new_id(),
        original_input=input,
        pending_node_ids=list(named),
        metadata=dict(metadata or {}),
    )
    first.wf_run_id = first.run_id
    await backend.asave(first)
    return await _Walk(backend, named, behavior).go_on(first)


async def aresume(
    checkpoint_id: str,
    steps: Sequence[Step],
    backend: CheckpointBackend,
    *,
    answers: Mapping[str, Any] | None = None,
    behavior: CheckpointBehavior = CheckpointBehavior.APPEND,
    fork: bool = False,
) -> FlowCheckpoint:
    """Go on from a checkpoint, with *answers* by the names of the steps that asked; return the last checkpoint.

    One of all who resume a checkpoint goes on; the others get ``StorageError``, and so do those who come when the run
    has gone on already, unless they ask for a *fork*. Answers are stored before anything is done with them. A step that
    has succeeded is not called again.
    """
    named = _named(steps)
    found = await backend.aload(checkpoint_id)
    if found is None:
        raise NotFoundError(f"There is no checkpoint {checkpoint_id} to go on from.")
    if found.status is CheckpointStatus.COMPLETED:
        return found
    _answered(found, answers or {})  # what nobody asked for is refused before anything is claimed
    if not fork:
        await _refuse_if_it_went_on(found, backend)
    claim = await backend.aclaim(checkpoint_id, lease=_LEASE)
    if claim is None:
        raise StorageError(f"Somebody else goes on from the checkpoint {checkpoint_id}, or it was changed meanwhile.")
    keeping = asyncio.ensure_future(_keep(backend, claim))
    try:
        checkpoint = _answered(claim.checkpoint, answers or {})
        if answers:
            await backend.aupdate(checkpoint)
        return await _Walk(backend, named, behavior).go_on(checkpoint)
    finally:
        keeping.cancel()
        await backend.arelease_claim(claim)


def run_steps(
    flow_id: str,
    steps: Sequence[Step],
    backend: CheckpointBackend,
    *,
    input: Any = None,  # noqa: A002 -- what users call it
    run_id: str | None = None,
    behavior: CheckpointBehavior = CheckpointBehavior.APPEND,
    metadata: Mapping[str, Any] | None = None,
) -> FlowCheckpoint:
    """Do as ``arun_steps``, for code without an event loop."""
    return _blocking(
        arun_steps(flow_id, steps, backend, input=input, run_id=run_id, behavior=behavior, metadata=metadata), backend
    )


def resume(
    checkpoint_id: str,
    steps: Sequence[Step],
    backend: CheckpointBackend,
    *,
    answers: Mapping[str, Any] | None = None,
    behavior: CheckpointBehavior = CheckpointBehavior.APPEND,
    fork: bool = False,
) -> FlowCheckpoint:
    """Do as ``aresume``, for code without an event loop."""
    return _blocking(aresume(checkpoint_id, steps, backend, answers=answers, behavior=behavior, fork=fork), backend)


class _Walk:
    def __init__(
        self, backend: CheckpointBackend, steps: Mapping[str, Callable[[Any], Any]], behavior: CheckpointBehavior
    ) -> None:
        self._backend = backend
        self._steps = steps
        self._behavior = CheckpointBehavior(behavior)

    async def go_on(self, checkpoint: FlowCheckpoint) -> FlowCheckpoint:
        value = checkpoint.original_input
        for name, function in self._steps.items():
            if checkpoint.is_node_completed(name):
                value = checkpoint.get_node_output(name)
                continue
            checkpoint = await self._one(checkpoint, name, function, value)
            if checkpoint.has_pending_inputs():
                return checkpoint
            value = checkpoint.get_node_output(name)
        return checkpoint

    async def _one(
        self, checkpoint: FlowCheckpoint, name: str, function: Callable[[Any], Any], value: Any
    ) -> FlowCheckpoint:
        """Do one step, and store what came of it."""
        state = checkpoint.node_states.get(name) or NodeCheckpointState(name, getattr(function, "__qualname__", ""))
        state = replace(state, input_data=value, started_at=_now(), status="active")
        try:
            output = await _called(function, value, state.internal_state.get(_ANSWERS, []))
        except WaitingForInput as waits:
            after = self._next(checkpoint, name, state)
            after.mark_pending_input(name, waits.prompt, waits.metadata, resume_at=waits.resume_at)
            return await self._stored(after)
        except Exception as error:
            after = self._next(checkpoint, name, replace(state, status="failure", error=error, completed_at=_now()))
            after.status = CheckpointStatus.FAILED
            await self._stored(after)
            raise
        after = self._next(checkpoint, name, state)
        after.mark_node_complete(name, replace(state, status="success", output_data=output, completed_at=_now()))
        if all(after.is_node_completed(each) for each in self._steps):
            after.status = CheckpointStatus.COMPLETED
        return await self._stored(after)

    def _next(self, checkpoint: FlowCheckpoint, name: str, state: NodeCheckpointState) -> FlowCheckpoint:
        """Return the checkpoint that comes after: a new one that knows its parent, or the same once more."""
        after = replace(
            checkpoint,
            status=CheckpointStatus.ACTIVE,
            node_states={**checkpoint.node_states, name: state},
            completed_node_ids=list(checkpoint.completed_node_ids),
            pending_node_ids=list(checkpoint.pending_node_ids),
            pending_inputs={},
        )
        if self._behavior is CheckpointBehavior.APPEND:
            fresh = FlowCheckpoint(checkpoint.flow_id, checkpoint.run_id)
            after = replace(
                after,
                id=fresh.id,
                created_at=fresh.created_at,
                parent_checkpoint_id=checkpoint.id,
                revision=0,
            )
        return after

    async def _stored(self, checkpoint: FlowCheckpoint) -> FlowCheckpoint:
        await self._backend.asave(checkpoint)
        return checkpoint


async def _called(function: Callable[[Any], Any], value: Any, answers: list[Any]) -> Any:
    """Call a step, a sync one on a thread; what it asks is answered from *answers*."""
    conversation = Conversation(list(answers), _now())
    if inspect.iscoroutinefunction(function):
        return await asyncio.create_task(_awaited(function, value, conversation))
    context = contextvars.copy_context()
    context.run(enter, conversation)
    return await asyncio.get_running_loop().run_in_executor(None, context.run, function, value)


async def _awaited(function: Callable[[Any], Any], value: Any, conversation: Conversation) -> Any:
    enter(conversation)
    return await function(value)


async def _refuse_if_it_went_on(checkpoint: FlowCheckpoint, backend: CheckpointBackend) -> None:
    run_id = checkpoint.wf_run_id or checkpoint.run_id
    for newest in await backend.alist_by_run(run_id, limit=1):
        if newest.id != checkpoint.id:
            raise StorageError(
                f"The run {run_id} has gone on from {checkpoint.id}, to the checkpoint {newest.id}: resume that one, or "
                "pass fork=True to do what comes after it once more."
            )


def _answered(checkpoint: FlowCheckpoint, answers: Mapping[str, Any]) -> FlowCheckpoint:
    """Return a checkpoint that has *answers* where the steps that asked find them; refuse those nobody asked for."""
    answered = replace(
        checkpoint, node_states=dict(checkpoint.node_states), pending_inputs=dict(checkpoint.pending_inputs)
    )
    for name, value in answers.items():
        waits = checkpoint.get_pending_input(name)
        if waits is None:
            raise ConfigurationError(
                f"The step {name!r} of the flow {checkpoint.flow_id!r} waits for no answer; "
                f"those that do: {', '.join(map(repr, checkpoint.pending_inputs)) or 'none'}."
            )
        state = answered.node_states.get(name) or NodeCheckpointState(name)
        given = [*state.internal_state.get(_ANSWERS, []), value]
        answered.node_states[name] = replace(state, internal_state={**state.internal_state, _ANSWERS: given})
        answered.clear_pending_input(name)
    return answered


async def _keep(backend: CheckpointBackend, claim: CheckpointClaim) -> None:
    while True:
        await asyncio.sleep(_LEASE / 3)
        await backend.aextend_claim(claim, lease=_LEASE)


def _named(steps: Sequence[Step]) -> dict[str, Callable[[Any], Any]]:
    pairs = [step if isinstance(step, tuple) else (getattr(step, "__name__", ""), step) for step in steps]
    named = dict(pairs)
    if len(named) != len(pairs) or "" in named:
        raise ConfigurationError("Every step has a name of its own: give pairs of a name and a function.")
    return named


def _blocking(work: Coroutine[Any, Any, FlowCheckpoint], backend: CheckpointBackend) -> FlowCheckpoint:
    async def main() -> FlowCheckpoint:
        try:
            return await work
        finally:
            await backend.aclose_here()

    return asyncio.run(main())


def _now() -> datetime:
    return datetime.now(UTC)
