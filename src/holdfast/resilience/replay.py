"""Replaying dead letters: one, or all that fit a filter, each under its lease, so many at once and so many a second."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from holdfast.errors import ConfigurationError, HoldfastError
from holdfast.model.dead_letter import ResolutionTrigger
from holdfast.resilience.letters import Replayed, replayed, traceback_of
from holdfast.resilience.replay_report import ReplayOutcome, ReplayReport, ReplayResult

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from holdfast.model.dead_letter import FailedOperationData
    from holdfast.model.world import World
    from holdfast.resilience.handlers import Handle
    from holdfast.stores.dead_letters.repository import AsyncFailedOperationRepository

    Progress: TypeAlias = Callable[[int, ReplayOutcome], None]
    Find: TypeAlias = Callable[[FailedOperationData], Handle | None]

logger = logging.getLogger("holdfast.replay")

LEASE = 300.0
CONCURRENCY = 32
_PAGE = 200
_BEATS = 3  # in a lease
_AHEAD = 3  # for each letter that is handled one may be taken and one be ended meanwhile


@dataclass(frozen=True, slots=True)
class Selection:
    """Which letters are replayed: one by its *id*, or those that fit."""

    id: str | None = None
    domain: str | None = None
    status: str | None = None
    failure_type: str | None = None
    limit: int | None = None

    def check(self, *, force: bool) -> None:
        """Raise ``ConfigurationError`` for what makes no sense."""
        if self.id is not None and any((self.domain, self.status, self.failure_type, self.limit)):
            raise ConfigurationError("A dead letter is named by its id or by filters, not by both.")
        if self.status not in {None, "pending"} and not (force and self.status == "requires_review"):
            raise ConfigurationError(
                f"Letters in {self.status!r} are not replayed: pending ones are, and with force=True those that "
                "require review."
            )

    def statuses(self, *, force: bool) -> tuple[str, ...]:
        """Return the statuses that are gone through, in this order."""
        if self.status is not None:
            return (self.status,)
        return ("pending", "requires_review") if force else ("pending",)


@dataclass(frozen=True, slots=True)
class Manner:
    """How letters are replayed: at most *rate* a second are begun, at most *concurrency* at once."""

    dry_run: bool = False
    force: bool = False
    rate: float | None = None
    concurrency: int = CONCURRENCY
    resolved_by_id: int | None = None

    def check(self) -> None:
        """Raise ``ConfigurationError`` for what makes no sense."""
        if self.rate is not None and not self.rate > 0:
            raise ConfigurationError(f"A rate is more than 0 letters a second, not {self.rate}.")
        if self.concurrency < 1:
            raise ConfigurationError(f"At least one letter is replayed at once, not {self.concurrency}.")


@dataclass(slots=True)
class _Held:
    """A letter that is being replayed."""

    token: str
    task: asyncio.Task[Any] | None
    lost: bool = False


@dataclass(slots=True)
class _Bulk:
    """One replay of many: what is under way, what came of it, and what the second status must not see again."""

    report: ReplayReport
    progress: Progress | None
    slots: asyncio.Semaphore  # for handlers
    window: asyncio.Semaphore  # for all that is under way: letters are taken, and ended, while others are handled
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    error: BaseException | None = None

    def note(self, outcome: ReplayOutcome) -> None:
        if outcome.result is ReplayResult.FAILED:
            self.failed.add(outcome.id)
        self.report.add(outcome)
        if self.progress is not None:
            self.progress(self.report.matched, outcome)


class Replayer:
    """Replays letters of one repository. *find* names the handler of a letter; None if there is none.

    A letter is held for *lease* seconds, and longer while its handler runs: whoever loses it, because nothing was heard
    of the process for too long, cannot end it any more.
    """

    def __init__(
        self, letters: AsyncFailedOperationRepository, find: Find, world: World, *, lease: float = LEASE
    ) -> None:
        self._letters = letters
        self._find = find
        self._world = world
        self._lease = lease
        self._held: dict[str, _Held] = {}
        self._beats: asyncio.Task[None] | None = None

    async def replay(self, selection: Selection, manner: Manner, progress: Progress | None = None) -> ReplayReport:
        """Replay what is selected and return what became of it. An error of the storage ends it, and is raised."""
        selection.check(force=manner.force)
        manner.check()
        slots, window = asyncio.Semaphore(manner.concurrency), asyncio.Semaphore(_AHEAD * manner.concurrency)
        bulk = _Bulk(ReplayReport(manner.dry_run), progress, slots, window)
        if selection.id is None and not manner.dry_run:
            await self._letters.release_stale_replaying()
        pace = _Pace(manner.rate, self._world)
        try:
            async for letter in self._selected(selection, manner, bulk):
                await bulk.window.acquire()
                if bulk.error is not None:
                    break
                if not manner.dry_run:
                    await pace.turn()
                self._begin(bulk, letter, manner)
            while bulk.tasks:
                await asyncio.wait(bulk.tasks)
        except BaseException:
            await _cancelled(bulk.tasks)
            raise
        if bulk.error is not None:
            raise bulk.error
        return bulk.report

    async def _selected(self, selection: Selection, manner: Manner, bulk: _Bulk) -> AsyncIterator[FailedOperationData]:
        if selection.id is not None:
            letter = await self._letters.get_by_id(selection.id)
            if letter is not None:
                yield letter
            return
        left = selection.limit
        for status in selection.statuses(force=manner.force):
            if bulk.tasks:  # what fails in one status may be found in the next
                await asyncio.wait(bulk.tasks)
            async for letter in self._pages(selection, status):
                if letter.id in bulk.failed:
                    continue
                if left is not None and left <= 0:
                    return
                left = None if left is None else left - 1
                yield letter

    async def _pages(self, selection: Selection, status: str) -> AsyncIterator[FailedOperationData]:
        cursor: str | None = None
        while True:
            page = await self._letters.find_page(
                status=status, domain=selection.domain, failure_type=selection.failure_type, newest_first=False,
                cursor=cursor, limit=_PAGE,
            )  # fmt: skip
            for letter in page:
                yield letter
            if page.cursor is None:
                return
            cursor = page.cursor

    def _begin(self, bulk: _Bulk, letter: FailedOperationData, manner: Manner) -> None:
        async def work() -> None:
            try:
                bulk.note(await self._one(letter, manner, bulk.slots))
            except BaseException as error:  # noqa: BLE001 -- raised again by whoever asked for the replay
                bulk.error = bulk.error or error
            finally:
                bulk.window.release()

        task = asyncio.get_running_loop().create_task(work(), name=f"holdfast-replay-{letter.id}")
        bulk.tasks.add(task)
        task.add_done_callback(bulk.tasks.discard)

    async def _one(self, letter: FailedOperationData, manner: Manner, slots: asyncio.Semaphore) -> ReplayOutcome:
        handle = self._find(letter)
        if handle is None:
            return _outcome(letter, ReplayResult.SKIPPED, f"There is no replay handler of {letter.domain!r} here.")
        if manner.dry_run:
            return _would(letter, force=manner.force)
        taken = await self._letters.try_acquire_for_replay(
            letter.id, letter.max_retries, manner.force, lease=self._lease
        )
        if taken is None:
            return _outcome(letter, ReplayResult.SKIPPED, _not_to_be_had(letter))
        try:
            await slots.acquire()
        except asyncio.CancelledError:
            await asyncio.shield(self._letters.return_replay_attempt(letter.id, token=taken.replay_token))
            raise
        trigger, by = ResolutionTrigger.MANUAL_REPLAY, manner.resolved_by_id
        return await self.carry_out(taken, handle, trigger, by, handled=slots.release)

    async def carry_out(
        self,
        letter: FailedOperationData,
        handle: Handle,
        trigger: ResolutionTrigger,
        resolved_by_id: int | None = None,
        *,
        handled: Callable[[], None] = lambda: None,
    ) -> ReplayOutcome:
        """Have *handle* replay a letter that is held under its token, in a task of its own, and note what came of it.

        A cancelled replay counts as one that failed. *handled* is called when the handler has returned.
        """
        assert letter.replay_token is not None  # noqa: S101 -- whoever acquires gets one
        held = self._held[letter.id] = _Held(letter.replay_token, asyncio.current_task())
        self._keep_beating()
        replay = Replayed(letter.domain)
        mark = replayed.set(replay)
        error: BaseException | None = None
        try:
            await handle(letter)
            error = next(iter(replay.failures), None)
        except (Exception, asyncio.CancelledError) as raised:  # noqa: BLE001 -- the handler's boundary
            error = raised
        finally:
            replayed.reset(mark)
            handled()
            self._held.pop(letter.id, None)
        return await self._finished(letter, held, error, trigger, resolved_by_id)

    async def _finished(
        self,
        letter: FailedOperationData,
        held: _Held,
        error: BaseException | None,
        trigger: ResolutionTrigger,
        resolved_by_id: int | None,
    ) -> ReplayOutcome:
        is_cancelled = isinstance(error, asyncio.CancelledError) and not held.lost
        if held.lost and held.task is not None:
            held.task.uncancel()
        if error is None:
            noted = await self._letters.complete_replay(
                letter.id, True, trigger.value, resolved_by_id=resolved_by_id, token=held.token
            )
        else:
            note = "The replay was cancelled." if is_cancelled else _told(error)
            details = {} if is_cancelled else {"last_replay_error": traceback_of(error)}
            ending = self._letters.complete_replay(letter.id, False, note=note, error_details=details, token=held.token)
            noted = await (asyncio.shield(ending) if is_cancelled else ending)
        if is_cancelled:
            raise asyncio.CancelledError
        if not noted:
            why = "Somebody else has taken it meanwhile, or ended it: the end of this replay changed nothing."
            return _outcome(letter, ReplayResult.LOST, why)
        return _outcome(letter, ReplayResult.REPLAYED if error is None else ReplayResult.FAILED, _told(error))

    def _keep_beating(self) -> None:
        if self._beats is None or self._beats.done():
            self._beats = asyncio.get_running_loop().create_task(self._beat(), name="holdfast-replay-beats")

    async def _beat(self) -> None:
        """Say of everything that is held that it is alive, as long as anything is held."""
        while self._held:
            await self._world.sleep(self._lease / _BEATS)
            await asyncio.gather(*(self._extend(id, held) for id, held in list(self._held.items())))  # noqa: A001

    async def _extend(self, id: str, held: _Held) -> None:  # noqa: A002 -- the documented word
        try:
            alive = await self._letters.extend_replay(id, lease=self._lease, token=held.token)
        except HoldfastError as error:
            logger.warning("The replay of the dead letter %s could not be kept alive: %s", id, error)
            return
        if not alive and self._held.get(id) is held:
            held.lost = True
            logger.warning("The dead letter %s was taken from its replay, which is stopped.", id)
            if held.task is not None:
                held.task.cancel()

    async def close(self) -> None:
        """Stop beating; replays under way are their callers'."""
        beats, self._beats = self._beats, None
        if beats is not None:
            beats.cancel()
            with suppress(asyncio.CancelledError):
                await beats


class _Pace:
    """Spaces what is begun: never two sooner after each other than the rate says."""

    def __init__(self, rate: float | None, world: World) -> None:
        self._gap = None if rate is None else 1 / rate
        self._world = world
        self._next = world.monotonic()

    async def turn(self) -> None:
        """Wait until the next may begin."""
        if self._gap is None:
            return
        now = self._world.monotonic()
        if self._next > now:
            await self._world.sleep(self._next - now)
        self._next = max(now, self._next) + self._gap


async def _cancelled(tasks: set[asyncio.Task[None]]) -> None:
    """Cancel what is under way, and wait until it has been noted."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)


def _outcome(letter: FailedOperationData, result: ReplayResult, why: str = "") -> ReplayOutcome:
    return ReplayOutcome(letter.id, letter.domain, result, why)


def _would(letter: FailedOperationData, *, force: bool) -> ReplayOutcome:
    may = letter.status in {"pending", "requires_review"} if force else letter.status == "pending" and letter.can_retry
    if may:
        return _outcome(letter, ReplayResult.WOULD_REPLAY)
    return _outcome(letter, ReplayResult.SKIPPED, _not_to_be_had(letter))


def _not_to_be_had(letter: FailedOperationData) -> str:
    if letter.status == "pending" and not letter.can_retry:
        return f"It was replayed {letter.retry_count} times already, as often as it may be: say force=True."
    return f"It was {letter.status}, or somebody else has it now."


def _told(error: BaseException | None) -> str:
    return "" if error is None else f"{type(error).__name__}: {error}"


__all__ = ["CONCURRENCY", "LEASE", "Find", "Manner", "Progress", "Replayer", "Selection"]
