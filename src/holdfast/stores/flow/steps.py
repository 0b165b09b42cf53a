"""Any list of callables as a flow: a checkpoint after each, a stop where one needs an answer, and no step done twice.

Each step is called with what the one before has returned, the first with the input of the flow. Only a step that has
succeeded is complete: one that failed, or was under way when the process died, runs again. Which one is under way
stands in the checkpoint that was stored before it was called. Whoever runs a flow holds
its newest checkpoint, and passes the claim on from one to the next: of two who run one flow the late one stores
nothing.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from holdfast.errors import ConfigurationError, MisuseError, NotFoundError, StorageError
from holdfast.model.world import RealWorld
from holdfast.stores.flow.documented import LEASE
from holdfast.stores.flow.model import CheckpointBehavior, CheckpointStatus, FlowCheckpoint, NodeCheckpointState
from holdfast.stores.flow.verbs import lease_seconds
from holdfast.stores.flow.walk import ANSWERS, Walk, begin_next

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from holdfast.model.workflow import Duration
    from holdfast.stores.flow.documented import CheckpointBackend
    from holdfast.stores.flow.verbs import CheckpointClaim

Step: TypeAlias = "Callable[[Any], Any] | tuple[str, Callable[[Any], Any]]"


async def arun_steps(
    flow_id: str,
    steps: Sequence[Step],
    backend: CheckpointBackend,
    *,
    input: Any = None,  # noqa: A002 -- what users call it
    run_id: str | None = None,
    behavior: CheckpointBehavior = CheckpointBehavior.APPEND,
    metadata: Mapping[str, Any] | None = None,
    lease: Duration = LEASE,
) -> FlowCheckpoint:
    """Run *steps* one after the other, storing a checkpoint after each; return the last one.

    Its status says whether the flow is completed or waits for input. A step that fails is stored as failed, and its
    error is raised; so is what goes wrong with storing. Steps are named by their functions, or given as pairs of a name
    and a function. When this process dies another one may ``resume`` after *lease* seconds.
    """
    named, held, kind = _named(steps), lease_seconds(lease), CheckpointBehavior(behavior)
    first = FlowCheckpoint(
        flow_id=flow_id,
        run_id=run_id or RealWorld().new_id(),
        original_input=input,
        pending_node_ids=list(named),
        metadata=dict(metadata or {}),
    )
    first.wf_run_id = first.run_id
    begin_next(first, named)
    await backend.asave(first)
    claim = await _claimed(first.id, backend, held)
    return await Walk(backend, named, kind, claim, held).go_on(claim.checkpoint)


async def aresume(
    checkpoint_id: str,
    steps: Sequence[Step],
    backend: CheckpointBackend,
    *,
    answers: Mapping[str, Any] | None = None,
    behavior: CheckpointBehavior = CheckpointBehavior.APPEND,
    fork: bool = False,
    lease: Duration = LEASE,
) -> FlowCheckpoint:
    """Go on from a checkpoint, with *answers* to what its steps have asked; return the last checkpoint.

    An answer goes by the name of the step that asked, or by the ``request_id`` of the question. One of all who resume a
    checkpoint goes on; the others get ``StorageError``, and so do those who come when the run has gone on already,
    unless they ask for a *fork*. Answers are stored before anything is done with them, and with them that the next step
    begins. A step that has succeeded is not called again. Of a flow that is completed its checkpoint is returned.
    """
    named, held, kind = _named(steps), lease_seconds(lease), CheckpointBehavior(behavior)
    found = await backend.aload(checkpoint_id)
    if found is None:
        raise NotFoundError(f"There is no checkpoint {checkpoint_id} to go on from.")
    if found.status is CheckpointStatus.COMPLETED:
        return found
    _answered(found, answers or {})  # what nobody asked for is refused before anything is claimed
    claim = await _claimed(checkpoint_id, backend, held)
    try:
        if not fork:  # after the claim, so that nobody can go on between the look and the claim
            await _refuse_if_it_went_on(claim.checkpoint, backend)
        checkpoint = _answered(claim.checkpoint, answers or {})
        begin_next(checkpoint, named)
        await backend.aupdate(checkpoint)
    except BaseException:
        await backend.arelease_claim(claim)
        raise
    attempt = replace(checkpoint, run_id=RealWorld().new_id(), wf_run_id=checkpoint.wf_run_id or checkpoint.run_id)
    return await Walk(backend, named, kind, claim, held).go_on(attempt)


def run_steps(
    flow_id: str,
    steps: Sequence[Step],
    backend: CheckpointBackend,
    *,
    input: Any = None,  # noqa: A002 -- what users call it
    run_id: str | None = None,
    behavior: CheckpointBehavior = CheckpointBehavior.APPEND,
    metadata: Mapping[str, Any] | None = None,
    lease: Duration = LEASE,
) -> FlowCheckpoint:
    """Do as ``arun_steps``, for code without an event loop."""
    return _blocking(
        arun_steps(
            flow_id, steps, backend, input=input, run_id=run_id, behavior=behavior, metadata=metadata, lease=lease
        ),
        backend,
    )


def resume(
    checkpoint_id: str,
    steps: Sequence[Step],
    backend: CheckpointBackend,
    *,
    answers: Mapping[str, Any] | None = None,
    behavior: CheckpointBehavior = CheckpointBehavior.APPEND,
    fork: bool = False,
    lease: Duration = LEASE,
) -> FlowCheckpoint:
    """Do as ``aresume``, for code without an event loop."""
    work = aresume(checkpoint_id, steps, backend, answers=answers, behavior=behavior, fork=fork, lease=lease)
    return _blocking(work, backend)


async def _claimed(checkpoint_id: str, backend: CheckpointBackend, lease: float) -> CheckpointClaim:
    claim = await backend.aclaim(checkpoint_id, lease=lease)
    if claim is None:
        raise StorageError(
            f"Nobody can go on from the checkpoint {checkpoint_id} now: somebody else does, or it was canceled, "
            "completed or deleted meanwhile."
        )
    return claim


async def _refuse_if_it_went_on(checkpoint: FlowCheckpoint, backend: CheckpointBackend) -> None:
    run_id = checkpoint.wf_run_id or checkpoint.run_id
    newest = await backend.anewest_of_run(run_id, flow_id=checkpoint.flow_id)
    if newest is not None and newest != checkpoint.id:
        raise StorageError(
            f"The run {run_id} has gone on from {checkpoint.id}, to the checkpoint {newest}: resume that one, "
            "or pass fork=True to do what comes after it once more."
        )


def _answered(checkpoint: FlowCheckpoint, answers: Mapping[str, Any]) -> FlowCheckpoint:
    """Return a checkpoint that waits no more and has *answers* where the steps that asked find them.

    Raises ``ConfigurationError`` for an answer nobody asked for, and for a question without one.
    """
    waiting = {name: waits for name, waits in checkpoint.pending_inputs.items() if waits.resume_at is None}
    names = {waits.request_id: name for name, waits in waiting.items()} | {name: name for name in waiting}
    states = dict(checkpoint.node_states)
    for asked, value in answers.items():
        if (name := names.get(asked)) is None or waiting.pop(name, None) is None:
            raise ConfigurationError(
                f"The step {asked!r} of the flow {checkpoint.flow_id!r} waits for no answer; "
                f"those that do: {', '.join(map(repr, waiting)) or 'none'}."
            )
        state = states.get(name) or NodeCheckpointState(name)
        given = [*state.internal_state.get(ANSWERS, []), value]
        states[name] = replace(state, internal_state={**state.internal_state, ANSWERS: given})
    for name, waits in waiting.items():
        raise ConfigurationError(
            f"The step {name!r} of the flow {checkpoint.flow_id!r} waits for an answer to {waits.prompt!r}: "
            f"pass answers={{{name!r}: ...}}."
        )
    status = CheckpointStatus.ACTIVE if checkpoint.has_pending_inputs() else checkpoint.status
    return replace(checkpoint, node_states=states, pending_inputs={}, status=status)


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

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(main())
    work.close()
    raise MisuseError("run_steps() and resume() would block this event loop; await arun_steps() and aresume().")
