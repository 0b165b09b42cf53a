"""One turn at a flow of steps, by whoever holds its newest checkpoint."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.core.functions import makes_coroutine
from holdfast.db.outlast import outlast
from holdfast.errors import StorageError
from holdfast.serialize.lossless import dump, load
from holdfast.stores.cancels import cancels
from holdfast.stores.flow.asking import Conversation, WaitingForInput, enter
from holdfast.stores.flow.model import (
    CheckpointBehavior,
    CheckpointStatus,
    FlowCheckpoint,
    NodeCheckpointState,
    in_utc,
)
from holdfast.stores.on_thread import on_thread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from holdfast.stores.flow.documented import CheckpointBackend
    from holdfast.stores.flow.verbs import CheckpointClaim

T = TypeVar("T")

logger = logging.getLogger("holdfast.flow")

ANSWERS = "answers"
_BEATS = 3  # in a lease


class Walk:
    """Goes through *steps* under *claim*, which it passes on to each checkpoint and gives back in the end."""

    def __init__(
        self,
        backend: CheckpointBackend,
        steps: Mapping[str, Callable[[Any], Any]],
        behavior: CheckpointBehavior,
        claim: CheckpointClaim,
        lease: float,
    ) -> None:
        self._backend = backend
        self._steps = steps
        self._behavior = behavior
        self._claim = claim
        self._lease = lease

    async def go_on(self, checkpoint: FlowCheckpoint) -> FlowCheckpoint:
        """Do what is left to do from *checkpoint* on; return the last checkpoint."""
        before = cancels()
        beating = asyncio.ensure_future(self._beat())
        try:
            checkpoint = await self._through(checkpoint)
        finally:
            beating.cancel()
            await outlast(asyncio.wait([beating]))
            try:
                await self._backend.arelease_claim(self._claim)
            except StorageError as error:
                logger.warning("The claim ends by itself in %s s, it was not given back: %s", self._lease, error)
        if cancels() > before:
            raise asyncio.CancelledError
        return checkpoint

    async def _through(self, checkpoint: FlowCheckpoint) -> FlowCheckpoint:
        before = cancels()
        value = checkpoint.original_input
        for name, function in self._steps.items():
            if not checkpoint.is_node_completed(name):
                checkpoint = await self._one(checkpoint, name, function, value)
                if cancels() > before:  # while a thread could not be interrupted, or as the step ended
                    raise asyncio.CancelledError
                if checkpoint.has_pending_inputs():
                    return checkpoint
            value = checkpoint.get_node_output(name)
        if checkpoint.status is not CheckpointStatus.COMPLETED:  # there was nothing left to do
            done = self._next(checkpoint)
            done.status = CheckpointStatus.COMPLETED
            return await self._stored(done)
        return checkpoint

    async def _one(
        self, checkpoint: FlowCheckpoint, name: str, function: Callable[[Any], Any], value: Any
    ) -> FlowCheckpoint:
        """Do one step, and store what came of it, and that the next one has begun."""
        state = replace(checkpoint.node_states[name], input_data=value, error=None)
        after = self._next(checkpoint)
        after.node_states[name] = state
        try:
            output = await _called(function, value, state.internal_state.get(ANSWERS, []))
            kept = _as_stored({name: output})[name]  # the step may still change its own
        except WaitingForInput as waits:
            after.mark_pending_input(name, waits.prompt, waits.metadata, resume_at=waits.resume_at)
            return await self._stored(after)
        except Exception as error:
            after.node_states[name] = replace(state, status="failure", error=error, completed_at=_now())
            after.status = CheckpointStatus.FAILED
            await self._stored(after)
            raise
        after.mark_node_complete(name, replace(state, status="success", output_data=kept, completed_at=_now()))
        if not begin_next(after, self._steps):
            after.status = CheckpointStatus.COMPLETED
        return await self._stored(after)

    def _next(self, checkpoint: FlowCheckpoint) -> FlowCheckpoint:
        """Return the checkpoint that comes after: a new one that knows its parent, or the same once more."""
        after = replace(
            checkpoint,
            status=CheckpointStatus.ACTIVE,
            node_states=dict(checkpoint.node_states),
            completed_node_ids=list(checkpoint.completed_node_ids),
            pending_node_ids=list(checkpoint.pending_node_ids),
            pending_inputs={},
        )
        if self._behavior is CheckpointBehavior.APPEND:
            fresh = FlowCheckpoint(checkpoint.flow_id, checkpoint.run_id)
            after.id, after.parent_checkpoint_id, after.revision = fresh.id, checkpoint.id, 0
        return after

    async def _stored(self, checkpoint: FlowCheckpoint) -> FlowCheckpoint:
        if self._behavior is CheckpointBehavior.APPEND:
            checkpoint.created_at = max(_now(), in_utc(self._claim.checkpoint.created_at))  # a clock may be set back
            self._claim = await self._backend.afollow(self._claim, checkpoint, lease=self._lease)
        else:
            await self._backend.aupdate(checkpoint)
        return checkpoint

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._lease / _BEATS)
            try:
                await self._backend.aextend_claim(self._claim, lease=self._lease)
            except StorageError as error:
                logger.warning("A claim was not extended, tried again: %s", error)


def begin_next(checkpoint: FlowCheckpoint, steps: Mapping[str, Callable[[Any], Any]]) -> bool:
    """Note in *checkpoint*, which is stored before the step is called, that the first one left begins; False if none.

    What it is given is what the one before has made, and is not noted twice.
    """
    name = next((each for each in steps if not checkpoint.is_node_completed(each)), None)
    if name is None:
        return False
    state = checkpoint.node_states.get(name) or NodeCheckpointState(name, getattr(steps[name], "__qualname__", ""))
    checkpoint.node_states[name] = replace(state, status="active", started_at=_now(), completed_at=None)
    checkpoint.status = CheckpointStatus.ACTIVE
    return True


async def _called(function: Callable[[Any], Any], value: Any, answers: list[Any]) -> Any:
    """Call a step, a sync one on a thread; what it asks is answered from *answers*.

    It is given values of its own, as a later process would read them: what it does to them changes nothing stored. A
    thread is waited for though this task is cancelled: as long as it works the flow is nobody else's.
    """
    value, answers = _as_stored((value, answers))
    context = contextvars.copy_context()
    context.run(enter, Conversation(answers, _now()))
    if makes_coroutine(function):
        return await _in(context, function(value))
    output = await outlast(context.run(on_thread, None, function, value))
    if inspect.isawaitable(output):  # as a lambda returns
        return await _in(context, output)
    return output


async def _in(context: contextvars.Context, work: Awaitable[T]) -> T:
    """Await *work* in *context*. What it has returned counts, though this task is cancelled at the same moment."""
    done: list[T] = []

    async def awaited() -> None:
        done.append(await work)

    try:
        await asyncio.get_running_loop().create_task(awaited(), context=context)
    except asyncio.CancelledError:
        if not done:
            raise
    finally:
        if inspect.iscoroutine(work):
            work.close()  # which may not have begun
    return done[0]


def _as_stored(value: T) -> T:
    stored: T = load(dump(value))
    return stored


def _now() -> datetime:
    return datetime.now(UTC)
