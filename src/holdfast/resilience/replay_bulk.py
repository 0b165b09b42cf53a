"""Replaying many dead letters: lots are taken and ended with one step each, while the handlers are busy with others.

::

    pages of the listing ─► taken, a lot at a time ─► queue ─► handled, so many at once ─► ended, as many as there are

Whatever ends it, every letter that was taken is ended or given back.
"""

from __future__ import annotations

import asyncio
from contextvars import Context, copy_context
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from holdfast.db.outlast import outlast
from holdfast.errors import NotInitialized
from holdfast.model.dead_letter import ResolutionTrigger
from holdfast.resilience.replay_choice import LotSize, Manner, Pace, Selection
from holdfast.resilience.replay_report import ReplayOutcome, ReplayReport, ReplayResult

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Sequence
    from typing import Any

    from holdfast.model.dead_letter import FailedOperationData
    from holdfast.model.world import World
    from holdfast.resilience.handlers import Handle
    from holdfast.resilience.replay import Ended, Progress, Replayer
    from holdfast.stores.dead_letters.repository import AsyncFailedOperationRepository

    Lot: TypeAlias = tuple[list[FailedOperationData], Context]

_PAGE = 500


class Bulk:
    """One replay of many, of which *replayer* does the single ones."""

    def __init__(
        self,
        replayer: Replayer,
        letters: AsyncFailedOperationRepository,
        world: World,
        manner: Manner,
        progress: Progress | None,
    ) -> None:
        self._replayer = replayer
        self._letters = letters
        self._manner = manner
        self._progress = progress
        self._report = ReplayReport(manner.dry_run)
        self._pace = Pace(manner.rate, world)
        self._size = LotSize(manner.concurrency, world)
        self._slots = asyncio.Semaphore(manner.concurrency)
        self._lots: asyncio.Queue[Lot | None] = asyncio.Queue(1)
        self._waiting: dict[str, FailedOperationData] = {}
        self._ended: list[Ended] = []
        self._failed: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._ending: asyncio.Task[None] | None = None
        self._open = 0
        self._settled = asyncio.Condition()
        self._error: BaseException | None = None
        self._over = asyncio.Event()

    async def done(self, selection: Selection) -> ReplayReport:
        """Replay what is selected and return what became of it. An error of the storage ends it, and is raised."""
        try:
            return await self._done(selection)
        finally:
            self._over.set()

    @property
    def is_stopped(self) -> bool:
        """Whether nothing more is begun, since something went wrong or it is to end early."""
        return self._error is not None

    async def stop(self) -> None:
        """End it early, and wait until all that was taken is ended or given back: ``done`` raises that it was."""
        await self._fail(NotInitialized("The application was closed during the replay; what was left stays pending."))
        self._cancel()
        await self._over.wait()

    async def _done(self, selection: Selection) -> ReplayReport:
        taking = self._begin(self._take_all(selection), None)
        try:
            while self._error is None and (lot := await self._lots.get()) is not None:
                await self._hand_out(*lot)
            if self._error is None:
                await self._rest(0)
        except BaseException:
            self._cancel()
            raise
        finally:
            taking.cancel()
            await outlast(asyncio.ensure_future(self._cleared()))  # a task of its own, which nobody cancels
        if self._error is not None:
            raise self._error
        return self._report

    async def _take_all(self, selection: Selection) -> None:
        """Take what is selected, a lot at a time; the queue says when there is room for another."""
        statuses: tuple[str, ...] = ("",) if selection.id is not None else selection.statuses(force=self._manner.force)
        left = selection.limit
        for status in statuses:
            await self._rest(0)  # what fails in one status may be found in the next
            async for page in self._pages(selection, status):
                some = [letter for letter in page if letter.id not in self._failed][:left]
                left = None if left is None else left - len(some)
                while some:
                    lot, some = some[: self._lot()], some[self._lot() :]
                    await self._take(lot)
                if left == 0:
                    break
        await self._lots.put(None)

    def _lot(self) -> int:
        return 1 if self._manner.rate is not None else self._size.now

    async def _pages(self, selection: Selection, status: str) -> AsyncIterator[Sequence[FailedOperationData]]:
        if selection.id is not None:
            letter = await self._letters.get_by_id(selection.id)
            yield [] if letter is None else [letter]
            return
        find = partial(
            self._letters.find_page, status=status, domain=selection.domain, failure_type=selection.failure_type,
            whole=False,
        )  # fmt: skip
        newest = await find(limit=1)  # what handlers make meanwhile is for the next time: they could do so for ever
        cursor: str | None = None
        while newest:
            page = await find(newest_first=False, cursor=cursor, limit=_PAGE)
            yield [letter for letter in page if _place(letter) <= _place(newest[0])]
            if page.cursor is None or _place(page[-1]) >= _place(newest[0]):
                return
            cursor = page.cursor

    async def _take(self, lot: Sequence[FailedOperationData]) -> None:
        """Take those of *lot* that can be had and pass them on; note what becomes of the others."""
        wanted = [letter for letter in lot if self._is_wanted(letter)]
        if not wanted:
            return
        await self._pace.turn()
        taken = await self._letters.acquire_many(
            [letter.id for letter in wanted], None, self._manner.force, lease=self._replayer.lease
        )
        self._open += len(taken)
        self._waiting |= {letter.id: letter for letter in taken}
        self._replayer.hold(taken)
        for letter in wanted:
            if letter.id not in self._waiting:
                self._note(outcome(letter, ReplayResult.SKIPPED, not_to_be_had(letter)))
        if taken:
            order = {letter.id: at for at, letter in enumerate(wanted)}
            await self._lots.put((sorted(taken, key=lambda letter: order[letter.id]), copy_context()))
            await self._rest(2 * self._size.now)

    def _is_wanted(self, letter: FailedOperationData) -> bool:
        if self._replayer.find(letter) is None:
            self._note(nobody(letter))
            return False
        if self._manner.dry_run:
            self._note(would(letter, force=self._manner.force))
        return not self._manner.dry_run

    async def _hand_out(self, lot: Sequence[FailedOperationData], context: Context) -> None:
        """Have every letter of a lot handled, each in a task of its own, which holds the tokens of its lot."""
        self._size.begin()
        for letter in lot:
            await self._slots.acquire()
            if self._error is not None:
                return
            handle = self._replayer.find(letter)
            if handle is None:  # there was one when the letter was taken: its breaker has opened since
                self._slots.release()
                await self._give_back(letter)
                await self._settle([nobody(letter)])
                continue
            task = self._begin(self._handled(letter, handle), context.copy())
            task.add_done_callback(lambda _: self._slots.release())  # also of one that is cancelled before it begins
        self._size.end()

    async def _handled(self, letter: FailedOperationData, handle: Handle) -> None:
        del self._waiting[letter.id]  # from here on it is ended; what never gets here is given back
        trigger, by = ResolutionTrigger.MANUAL_REPLAY, self._manner.resolved_by_id
        ended = await self._replayer.attempt(letter, handle, trigger, by)
        self._ended.append(ended)
        if self._ending is None or self._ending.done():
            self._ending = self._begin(self._end_all(), None)
        if ended.interrupt is not None:
            raise ended.interrupt

    async def _end_all(self) -> None:
        """End what was handled, and then what was handled meanwhile."""
        while self._ended:
            some, self._ended = self._ended[: LotSize.MOST], self._ended[LotSize.MOST :]
            noted = await self._letters.complete_many([each.end for each in some])
            await self._settle([each.outcome(noted=done) for each, done in zip(some, noted, strict=True)])

    async def _settle(self, outcomes: Sequence[ReplayOutcome]) -> None:
        for each in outcomes:
            self._note(each)
        async with self._settled:
            self._open -= len(outcomes)
            self._settled.notify_all()

    async def _rest(self, most: int) -> None:
        """Wait until at most so many letters are taken and not ended, or until something went wrong."""
        async with self._settled:
            await self._settled.wait_for(lambda: self._open <= most or self._error is not None)

    def _begin(self, work: Coroutine[Any, Any, None], context: Context | None) -> asyncio.Task[None]:
        async def guarded() -> None:
            try:
                await work
            except asyncio.CancelledError:
                raise
            except BaseException as error:  # noqa: BLE001 -- raised again by whoever asked for the replay
                await self._fail(error)

        task = asyncio.get_running_loop().create_task(guarded(), name="holdfast-replay", context=context)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: work.close())  # which has not begun if the task never did
        return task

    async def _fail(self, error: BaseException) -> None:
        async with self._settled:
            self._error = self._error or error
            self._settled.notify_all()
        if self._lots.empty():
            self._lots.put_nowait(None)

    def _cancel(self) -> None:
        for task in self._tasks - {self._ending}:
            task.cancel()

    async def _cleared(self) -> None:
        """Wait until what is under way has ended, and give back what was taken and not begun."""
        while self._tasks:
            await asyncio.wait(self._tasks)
        for letter in self._waiting.values():  # all of them first: the storage may fail at any
            self._replayer.let_go(letter)
        for letter in list(self._waiting.values()):
            await self._give_back(letter)

    async def _give_back(self, letter: FailedOperationData) -> None:
        del self._waiting[letter.id]
        self._replayer.let_go(letter)
        await self._letters.return_replay_attempt(letter.id, token=letter.replay_token)

    def _note(self, result: ReplayOutcome) -> None:
        if result.result is ReplayResult.FAILED:
            self._failed.add(result.id)
        self._report.add(result)
        if self._progress is not None:
            try:
                self._progress(self._report.matched, result)
            except Exception as error:  # noqa: BLE001 -- raised again when all that was taken is ended
                self._error = self._error or error


def _place(letter: FailedOperationData) -> tuple[Any, str]:
    """Return where *letter* stands in a listing."""
    return letter.created_at, letter.id


def outcome(letter: FailedOperationData, result: ReplayResult, why: str = "") -> ReplayOutcome:
    """Return what became of *letter*."""
    return ReplayOutcome(letter.id, letter.domain, result, why)


def nobody(letter: FailedOperationData) -> ReplayOutcome:
    """Return that *letter* was not tried, since nobody here can."""
    return outcome(letter, ReplayResult.SKIPPED, f"There is no replay handler of {letter.domain!r} here.")


def would(letter: FailedOperationData, *, force: bool) -> ReplayOutcome:
    """Return what a replay would do with *letter*."""
    may = letter.status in {"pending", "requires_review"} if force else letter.status == "pending" and letter.can_retry
    if may:
        return outcome(letter, ReplayResult.WOULD_REPLAY)
    return outcome(letter, ReplayResult.SKIPPED, not_to_be_had(letter))


def not_to_be_had(letter: FailedOperationData) -> str:
    """Return why a letter that was found could not be taken."""
    if letter.status == "pending" and not letter.can_retry:
        return f"It was replayed {letter.retry_count} times already, as often as it may be: say force=True."
    return f"It was {letter.status}, or somebody else has it now."


__all__ = ["Bulk", "outcome"]
