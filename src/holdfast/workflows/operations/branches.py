"""Parts of a workflow that run side by side, and parts that may take only so long: the same on every replay.

Each part is a branch that gets its place when it is opened, so its operations keep their identities whatever the
latencies. All parts end before ``gather`` does; of several errors the one of the first part is raised.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.core.durations import checked_seconds
from holdfast.errors import MisuseError, Superseded
from holdfast.workflows.operations.agreement import check_whole
from holdfast.workflows.operations.place import WorkflowPlace, here
from holdfast.workflows.parking import Parts, Wait

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from holdfast.core.identity import Branch
    from holdfast.model.workflow import Duration
    from holdfast.workflows.operations.durable import Durable
    from holdfast.workflows.running.run import Run
    from holdfast.workflows.running.threads import WorkflowThreads

TIMEOUT = "holdfast.timeout"
TIMED_OUT = "holdfast.timed_out"


async def gather(place: WorkflowPlace | None, parts: Sequence[Awaitable[Any]]) -> list[Any]:
    """Run awaitables side by side; outside a workflow just that, inside one each in a branch of its own."""
    _refuse_not_awaitable("gather", parts)
    if place is None:
        return list(await asyncio.gather(*parts))
    opened = [place.branch.open() for _ in parts]
    with dropped_unless_ready(parts):
        place.check_before_wait()
    together = Parts()
    places = [WorkflowPlace(place.run, branch, None) for branch in opened]
    tasks = [_in_task(each, part, together) for each, part in zip(places, parts, strict=True)]
    with _joining(place, together):
        await asyncio.gather(*tasks, return_exceptions=True)
    return _sorted_out([_outcome(task) for task in tasks], place)


def gather_blocking(
    place: WorkflowPlace | None, parts: Sequence[Callable[[], Any]], threads: WorkflowThreads
) -> list[Any]:
    """Run callables side by side on threads, each in a branch of its own."""
    refuse_results("gather", parts)
    outcomes: list[Any] = [None] * len(parts)
    left = threading.Semaphore(0)
    together = Parts()

    def job(index: int, context: contextvars.Context, run: Run | None, branch: Branch | None) -> None:
        outcomes[index] = context.run(_on_thread, run, branch, parts[index], together)
        left.release()

    for index in range(len(parts)):
        run, branch = (None, None) if place is None else (place.run, place.branch.open())
        if run is not None and branch is not None:
            run.waits().opened(branch, together)
        threads.submit(partial(job, index, contextvars.copy_context(), run, branch))
    with _joining(place, together), threads.waiting():
        for _ in parts:
            left.acquire()
    return _sorted_out(outcomes, place)


async def within(durable: Durable, place: WorkflowPlace | None, duration: Duration, part: Awaitable[Any]) -> Any:
    """Await *part* for so long; whether it came in time is recorded, and every replay goes the same way."""
    _refuse_not_awaitable("timeout", [part])
    with dropped_unless_ready((part,)):
        seconds = _checked(duration)
    if place is None:
        return await asyncio.wait_for(part, seconds)
    verdict = _verdict(place)
    with dropped_unless_ready((part,)):
        end = await durable.deadline(place, TIMEOUT, seconds)
        branch = place.branch.open()
        place.check_before_wait()
        known = durable.recorded(verdict)
        if known == _LATE:
            raise _time_is_over(seconds)
    together, inner = Parts(), WorkflowPlace(place.run, branch, None)
    task = _in_task(inner, part, together)
    try:
        with _joining(place, together, None if known is not None else end):
            await asyncio.wait([task], timeout=None if known is not None else durable.seconds_until(end))
        late = not task.done() and not await _brought_a_message(inner, task)
    except asyncio.CancelledError:
        if not branch.is_over:  # else it was cancelled when its time was over, and is told once
            task.cancel()
        await asyncio.wait([task])  # as gather does: nothing of the part goes on beside what comes after it
        raise
    if known is None:
        known = await durable.value(verdict, TIMED_OUT, durable.whole, lambda: int(late))
        place.interrupted |= verdict.interrupted  # a cancellation that came meanwhile is due at the next operation
    if known == _LATE:
        raise _time_is_over(seconds)
    return _sorted_out([_outcome(task)])[0]


async def _brought_a_message(inner: WorkflowPlace, task: asyncio.Task[Any]) -> bool:
    """End a part whose time is over, before that is recorded; return whether it counts as having come in time.

    It does if it was just taking a message, and did nothing more: a message that it has taken is taken for good, and
    would be lost with it.
    """
    _close(inner.run, inner.branch)
    task.cancel()
    await asyncio.wait([task])
    took = inner.interrupted and inner.branch.has_taken_last  # the cancellation came while it recorded that
    return took and not _is_cut_off(_outcome(task))


def within_blocking(
    durable: Durable, place: WorkflowPlace | None, duration: Duration, part: Callable[[], Any], threads: WorkflowThreads
) -> Any:
    """Run *part* on a thread for so long. A thread whose time is over goes on, but can do nothing durable any more."""
    refuse_results("timeout", [part])
    seconds = _checked(duration)
    if place is None:
        return _sorted_out([_Side(None, None, part, threads).wait(seconds, threads)])[0]
    verdict = _verdict(place)
    end = durable.deadline_blocking(place, TIMEOUT, seconds)
    branch = place.branch.open()
    known = durable.recorded(verdict)
    if known == _LATE:
        raise _time_is_over(seconds)
    side = _Side(place.run, branch, part, threads)
    with _joining(place, side.parts, None if known is not None else end):
        outcome = side.wait(None if known is not None else durable.seconds_until(end), threads)
    if outcome is _STILL_RUNS:
        _close(place.run, branch)  # before it is recorded that its time is over
        outcome = side.if_it_brought_a_message(branch, threads)
    if known is None:
        known = durable.value_blocking(verdict, TIMED_OUT, durable.whole, lambda: int(outcome is _STILL_RUNS))
    if known == _LATE:
        raise _time_is_over(seconds)
    return _sorted_out([outcome])[0]


_LATE = 1
_LAST_MOMENT = 2.0  # seconds within which a thread that has just taken a message comes back with it
_STILL_RUNS = object()


class _Side:
    """A part that runs on a thread beside the one that waits for it."""

    def __init__(
        self, run: Run | None, branch: Branch | None, part: Callable[[], Any], threads: WorkflowThreads
    ) -> None:
        self._ended = threading.Event()
        self._outcome: Any = None
        self.parts = Parts()
        context = contextvars.copy_context()
        if run is not None and branch is not None:
            run.waits().opened(branch, self.parts)

        def job() -> None:
            self._outcome = context.run(_on_thread, run, branch, part, self.parts)
            self._ended.set()

        self._place = threads.submit(job)

    def wait(self, seconds: float | None, threads: WorkflowThreads) -> Any:
        with threads.waiting():
            if self._ended.wait(seconds):
                return self._outcome
            threads.leave(self._place)  # now, since there may be no other for this thread to go on with
            return _STILL_RUNS

    def if_it_brought_a_message(self, branch: Branch, threads: WorkflowThreads) -> Any:
        """Return how a late part has ended if it was just taking a message, and did nothing more.

        The message would be lost with it. Any other late part is left behind.
        """
        if branch.has_taken_last and self.wait(_LAST_MOMENT, threads) is not _STILL_RUNS:
            return _STILL_RUNS if _is_cut_off(self._outcome) or not branch.has_taken_last else self._outcome
        return _STILL_RUNS


def _verdict(place: WorkflowPlace) -> WorkflowPlace:
    """Return where it is recorded whether a part came in time; to be called before the end of its time is recorded.

    The verdict has the end's identity before its own. Where a run goes back to before the verdict, the end goes too,
    and what is gone back into has all its time again: see ``steps_cut``, ``steps_copy`` and ``run_retry_cut``.
    """
    return WorkflowPlace(place.run, place.branch.of_operation(place.branch.peek_identity()), place.owner)


_INSTEAD = "write `lambda: price(1)` in place of `price(1)`"


def refuse_results(verb: str, parts: Sequence[object], instead: str = _INSTEAD) -> None:
    """Raise for a part that was called where it is handed over: its work is done, at the wrong place or time."""
    for part in parts:
        if not callable(part):
            _refuse_list(verb, part)
            _drop_all(parts)
            raise MisuseError(f"{verb}() takes what is to be called, not {part!r:.100}: {instead}.")


def _refuse_not_awaitable(verb: str, parts: Sequence[object]) -> None:
    for part in parts:
        if not inspect.isawaitable(part):
            _refuse_list(verb, part)
            _drop_all(parts)
            raise MisuseError(
                f"{verb}() of an async application takes what can be awaited, not {part!r:.100}: write `price(1)` of "
                "an async function, or `app.run_step(price, 1)` of a sync one."
            )


def _refuse_list(verb: str, part: object) -> None:
    """Raise for several parts in one argument."""
    if isinstance(part, list | tuple):
        _drop_all(part)
        raise MisuseError(f"{verb}() was given a {type(part).__name__} of parts: write `{verb}(*parts)`, with a star.")


def _checked(duration: Duration) -> float:
    return checked_seconds(duration, "What timeout() is given", past=True)


@contextmanager
def dropped_unless_ready(parts: Sequence[object]) -> Iterator[None]:
    """Let go of parts if what comes before they are awaited raises; and raise it."""
    try:
        yield
    except BaseException:
        _drop_all(parts)
        raise


def _drop_all(parts: Sequence[object]) -> None:
    for part in parts:
        drop(part)


def drop(part: object) -> None:
    """Let go of a part that nobody will await, and of those that it was handed and has not begun to await."""
    if not inspect.iscoroutine(part):
        return
    if inspect.getcoroutinestate(part) == inspect.CORO_CREATED:
        for handed in inspect.getcoroutinelocals(part).values():
            _drop_all(handed if isinstance(handed, tuple) else (handed,))
    part.close()


def _close(run: Run, branch: Branch) -> None:
    """End a branch whose time is over: what goes on there is left behind, and keeps nothing of the run waiting."""
    branch.close()
    run.waits().closed()


def _time_is_over(seconds: float) -> TimeoutError:
    return TimeoutError(f"This part of the workflow took longer than its {seconds:g} s.")


def _in_task(place: WorkflowPlace, part: Awaitable[Any], together: Parts) -> asyncio.Task[Any]:
    """Run *part* in a task of its own at *place*, whose branch is counted while it lasts."""
    run, branch = place.run, place.branch

    async def work() -> Any:
        place.owner = asyncio.current_task()
        here.set(place)
        try:
            value = await part
            check_whole(place)
            return value  # noqa: TRY300 -- the part ends in here
        except (SystemExit, KeyboardInterrupt) as error:  # a task that ended so would end the loop, and all runs on it
            return _Raised(error)

    def ended(task: asyncio.Task[Any]) -> None:
        if not task.cancelled():
            task.exception()  # seen, also if nobody asks any more: the run was stopped meanwhile
        drop(part)  # it may have been cancelled before it had begun
        run.engine.parker.branch_ended(run, branch, together)

    run.waits().opened(branch, together)
    task = asyncio.ensure_future(work())
    task.add_done_callback(ended)
    return task


def _outcome(task: asyncio.Task[Any]) -> Any:
    """Return the result of a task that has ended, or what it raised."""
    if task.cancelled():
        return _Raised(asyncio.CancelledError())
    error = task.exception()
    return task.result() if error is None else _Raised(error)


def _joining(place: WorkflowPlace | None, together: Parts, until_ms: int | None = None) -> AbstractContextManager[None]:
    """Note that the branch waits for branches it has opened, at most until a moment."""
    if place is None:
        return nullcontext()
    waiting: AbstractContextManager[None] = place.run.engine.parker.waiting(place, Wait(until_ms, parts=together))
    return waiting


def _on_thread(run: Run | None, branch: Branch | None, part: Callable[[], Any], together: Parts) -> Any:
    place = None if run is None or branch is None else WorkflowPlace(run, branch, threading.get_ident())
    if place is not None:
        here.set(place)
    try:
        value = part()
        if place is not None:
            check_whole(place)
        return value  # noqa: TRY300 -- the part ends in here
    except BaseException as error:  # noqa: BLE001 -- sorted out and raised in the thread that gathers
        return _Raised(error)
    finally:
        if place is not None:
            place.run.engine.parker.branch_ended(place.run, place.branch, together)


def _is_cut_off(outcome: Any) -> bool:
    """Whether a part was ended from outside, by a cancellation or because its branch was closed."""
    return isinstance(outcome, _Raised) and not isinstance(outcome.error, Exception)


class _Raised:
    def __init__(self, error: BaseException) -> None:
        self.error = error


def _sorted_out(outcomes: Sequence[Any], place: WorkflowPlace | None = None) -> list[Any]:
    """Return the results, or raise: first that the run is lost, then the error of the first part.

    A run that is tried again for that error does all parts anew that have failed.
    """
    if any(each is _STILL_RUNS for each in outcomes):  # not by ==, which arrays and expressions answer in their own way
        raise TimeoutError("The time is over; the thread goes on.")
    raised = [each.error for each in outcomes if isinstance(each, _Raised)]
    for error in raised:
        if isinstance(error, Superseded):
            raise error
    if raised:
        if place is not None and place.run.cut_at is not None:
            place.run.cut_at.together(raised)
        raise raised[0]
    return list(outcomes)


def refuse_no_handles(handles: Sequence[object]) -> None:
    """Raise if there is no run of which one could be the first to end."""
    if not handles:
        raise MisuseError("wait_first() was given nothing to wait for.")
