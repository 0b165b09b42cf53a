"""Carrying out one step: attempt after attempt, each with its own place and its own time, until one has an outcome."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import inspect
import logging
import threading
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.core.retry import wait_before_retry
from holdfast.errors import CircuitOpen, StepTimeout
from holdfast.model.workflow import seconds
from holdfast.serialize.exact import safe_text
from holdfast.stores.on_thread import called
from holdfast.workflows.operations.place import StepPlace, here
from holdfast.workflows.operations.stopping import as_failure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.model.world import World
    from holdfast.workflows.declaring.registry import StepDefinition
    from holdfast.workflows.engine.engine import Engine
    from holdfast.workflows.operations.operation import Operation
    from holdfast.workflows.operations.place import WorkflowPlace
    from holdfast.workflows.ownership.permit import Permit
    from holdfast.workflows.running.threads import WorkflowThreads

T = TypeVar("T")

logger = logging.getLogger("holdfast.workflows")

_MOST_FAILURES = 20
_LONGEST_MESSAGE = 1000


class Attempts:
    """Runs the function of a step until it succeeds or its policy says that it failed for good."""

    def __init__(self, world: World, permit: Permit, threads: WorkflowThreads) -> None:
        self._world = world
        self._permit = permit
        self._threads = threads

    async def run(self, step: StepDefinition, call: Callable[[], Any], operation: Operation) -> Any:
        """Run an async step."""
        attempt = 0
        while True:
            attempt += 1
            place = StepPlace(operation.place, operation.run, operation.identity, operation.position, attempt)
            mark = here.set(place)
            try:
                value = await (call() if step.is_plain else self._guarded(step, call))
                place.closed = True
                if place.voice is not None:
                    operation.writes = place.voice.said()
                return value  # noqa: TRY300 -- the attempt ends in here
            except BaseException as error:
                failed = as_failure(operation.place, error)
                wait = None if failed is None else self._wait(step, operation, attempt, failed)
                if wait is None:
                    if failed is None or failed is error:
                        raise
                    raise failed from error
            finally:
                place.closed = True
                if place.voice is not None:
                    operation.writes_if_failed += place.voice.said_if_failed()
                here.reset(mark)
            await self._world.sleep(wait)
            await self._permit.wait()
            operation.check()

    def run_blocking(self, step: StepDefinition, call: Callable[[], Any], operation: Operation) -> Any:
        """Run a sync step on this thread, or, if it may take only so long, on one that can be left behind."""
        attempt = 0
        while True:
            attempt += 1
            place = StepPlace(operation.place, operation.run, operation.identity, operation.position, attempt)
            mark = here.set(place)
            try:
                value = call() if step.is_plain else _guarded_blocking(step, call)
                place.closed = True
                if place.voice is not None:
                    operation.writes = place.voice.said()
                return value  # noqa: TRY300 -- the attempt ends in here
            except BaseException as error:
                failed = as_failure(operation.place, error)
                wait = None if failed is None else self._wait(step, operation, attempt, failed)
                if wait is None:
                    if failed is None or failed is error:
                        raise
                    raise failed from error
            finally:
                place.closed = True
                if place.voice is not None:
                    operation.writes_if_failed += place.voice.said_if_failed()
                here.reset(mark)
            self._pause(operation, wait)
            self._permit.wait_blocking(operation.check)
            operation.check()

    def _pause(self, operation: Operation, wait: float) -> None:
        """Wait on this thread, which gives up its place, until the next attempt or until there is none any more."""
        halted = threading.Event()
        with operation.place.halting(halted.set), self._threads.waiting():
            halted.wait(wait)
        operation.check()

    async def _guarded(self, step: StepDefinition, call: Callable[[], Any]) -> Any:
        """Make one attempt within its time, if its breaker lets it; a timeout counts against the dependency."""
        within = call if step.timeout is None else partial(self._within, step, call)
        return await (within() if step.breaker is None else step.breaker.call_async(within))

    async def _within(self, step: StepDefinition, call: Callable[[], Any]) -> Any:
        limit = seconds(step.timeout) if step.timeout is not None else None
        try:
            async with asyncio.timeout(limit) as scope:
                return await call()
        except TimeoutError as error:
            if not scope.expired():
                raise
            raise StepTimeout(f"Step {step.name!r} took longer than its timeout of {limit:g} s.") from error

    def _wait(self, step: StepDefinition, operation: Operation, attempt: int, error: Exception) -> float | None:
        """Return how long to wait before the next attempt; None if there is none. A dead letter tells of each."""
        if step.dead_letter is not None:
            failed = (attempt, self._world.now(), type(error).__name__, safe_text(error)[:_LONGEST_MESSAGE])
            operation.failures = (*operation.failures, failed)[-_MOST_FAILURES:]
        if step.retry is None:
            return None
        if isinstance(error, CircuitOpen) and step.retry.when is None:
            return None  # whoever wants to wait for the breaker says so
        wait = wait_before_retry(step.retry, attempt, error, self._world.random.random())
        if wait is not None:
            logger.info(
                "Attempt %s of %s of step %s in run %s failed; the next is in %.1f s.",
                attempt,
                step.retry.attempts,
                step.name,
                operation.run.id,
                wait,
                exc_info=error,
            )
        return wait


def _guarded_blocking(step: StepDefinition, call: Callable[[], Any]) -> Any:
    """Make one attempt within its time, if its breaker lets it; a timeout counts against the dependency."""
    within = call if step.timeout is None else partial(_within_blocking, step, call)
    return within() if step.breaker is None else step.breaker.call(within)


def _within_blocking(step: StepDefinition, call: Callable[[], Any]) -> Any:
    """Run *call* on a thread of its own. Left behind when its time is up, it goes on, but its place is closed."""
    limit = seconds(step.timeout) if step.timeout is not None else None
    outcome: list[tuple[Any, BaseException | None]] = []
    context = contextvars.copy_context()

    def work() -> None:
        try:
            outcome.append((context.run(call), None))
        except BaseException as error:  # noqa: BLE001 -- raised again in the workflow's thread
            outcome.append((None, error))

    thread = threading.Thread(target=work, name=f"holdfast-step-{step.name}", daemon=True)
    thread.start()
    thread.join(limit)
    if not outcome:
        raise StepTimeout(
            f"Step {step.name!r} took longer than its timeout of {limit:g} s; its thread was left behind."
        )
    value, error = outcome[0]
    if error is not None:
        raise error
    return value


async def run_step(
    engine: Engine,
    place: WorkflowPlace | None,
    step: StepDefinition,
    arguments: tuple[Any, ...],
    keywords: dict[str, Any],
) -> Any:
    """Do a step of either colour from async code; a sync function runs on a thread."""
    if not step.is_async:
        step = replace(step, function=partial(called_on_thread, engine.threads, step.function), is_async=True)
    if place is None:
        return await step.function(*arguments, **keywords)
    return await engine.durable.step(place, step, arguments, keywords)


def run_step_blocking(
    engine: Engine,
    place: WorkflowPlace | None,
    step: StepDefinition,
    arguments: tuple[Any, ...],
    keywords: dict[str, Any],
) -> Any:
    """Do a step of either colour from a thread; an async function runs on the loop."""
    function = step.function

    def call(*args: Any, **kwargs: Any) -> Any:
        made = function(*args, **kwargs)
        return engine.ask_blocking(_awaited(made)) if inspect.isawaitable(made) else made

    if place is None:
        return call(*arguments, **keywords)
    return engine.durable.step_blocking(place, replace(step, function=call), arguments, keywords)


async def called_on_thread(threads: WorkflowThreads, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a sync function on one of *threads*; a task that is cancelled meanwhile leaves the thread behind."""
    outcome: concurrent.futures.Future[Any] = concurrent.futures.Future()
    context = contextvars.copy_context()

    def job() -> None:
        if not outcome.set_running_or_notify_cancel():
            return
        try:
            outcome.set_result(context.run(called, function, *args, **kwargs))
        except BaseException as error:  # noqa: BLE001 -- raised again in the task that waits
            outcome.set_exception(error)

    place = threads.submit(job)
    try:
        made = await asyncio.wrap_future(outcome)
    except asyncio.CancelledError:
        threads.leave(place)
        raise
    return await made if inspect.isawaitable(made) else made


async def _awaited(made: Awaitable[T]) -> T:
    return await made
