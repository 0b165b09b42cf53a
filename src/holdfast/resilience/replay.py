"""Replaying dead letters: one, or all that fit a filter, each under its lease, so many at once and so many a second."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from holdfast.core.functions import makes_coroutine
from holdfast.errors import ConfigurationError, HoldfastError, ReplayRefused, SerializationError
from holdfast.model.dead_letter import ReplayEnd
from holdfast.resilience.letters import HIDDEN, Replayed, replayed, traceback_of
from holdfast.resilience.replay_bulk import Bulk, outcome
from holdfast.resilience.replay_choice import CONCURRENCY, Manner, Selection
from holdfast.resilience.replay_report import ReplayOutcome, ReplayResult
from holdfast.serialize.exact import safe_text
from holdfast.stores.cancels import cancels
from holdfast.stores.dead_letters import door

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.model.dead_letter import FailedOperationData, ResolutionTrigger
    from holdfast.model.world import World
    from holdfast.resilience.handlers import Handle
    from holdfast.resilience.replay_report import ReplayReport
    from holdfast.stores.dead_letters.repository import AsyncFailedOperationRepository

    Progress: TypeAlias = Callable[[int, ReplayOutcome], None]
    Find: TypeAlias = Callable[[FailedOperationData], Handle | None]

logger = logging.getLogger("holdfast.replay")

LEASE = 300.0
_BEATS = 3  # in a lease
_MOST_TEXT = 16_384
_OURS = (ReplayRefused, SerializationError)  # why a letter cannot be replayed, which shows no value


@dataclass(slots=True)
class _Held:
    """A letter that is being replayed."""

    id: str
    token: str
    task: asyncio.Task[Any] | None
    lost: bool = False
    is_stopped: bool = False  # its task was cancelled because it is lost


@dataclass(frozen=True, slots=True)
class Ended:
    """A replay whose handler has returned or raised: what is to be written of it, and what will have come of it.

    *is_cancelled* is whether its task is to stop when that is written, however the handler has ended. *interrupt* is
    what the program is to be told then.
    """

    letter: FailedOperationData
    end: ReplayEnd
    why: str = ""
    is_cancelled: bool = False
    interrupt: BaseException | None = None

    def outcome(self, *, noted: bool) -> ReplayOutcome:
        """Return what became of the letter; *noted* is whether its end was written."""
        if not noted:
            why = "Somebody else has taken it meanwhile, or ended it: the end of this replay changed nothing."
            return outcome(self.letter, ReplayResult.LOST, why)
        return outcome(self.letter, ReplayResult.REPLAYED if self.end.success else ReplayResult.FAILED, self.why)


class Replayer:
    """Replays letters of one repository. *find* names the handler of a letter; None if there is none.

    A letter is held for *lease* seconds, and longer while its handler runs: whoever loses it, because nothing was heard
    of the process for too long, cannot end it any more.
    """

    def __init__(
        self, letters: AsyncFailedOperationRepository, find: Find, world: World, *, lease: float = LEASE
    ) -> None:
        self._letters = letters
        self.find = find
        self._world = world
        self.lease = lease
        self._held: dict[str, _Held] = {}  # by token: a letter that was taken from one replay may be in another here
        self._beats: asyncio.Task[None] | None = None
        self.under_way: set[Bulk] = set()

    async def replay(self, selection: Selection, manner: Manner, progress: Progress | None = None) -> ReplayReport:
        """Replay what is selected and return what became of it. An error of the storage ends it, and is raised.

        ``NotInitialized`` if this is closed meanwhile.
        """
        selection.check(force=manner.force)
        manner.check()
        watch: Any = progress
        if watch is not None and (not callable(watch) or makes_coroutine(watch)):
            raise ConfigurationError(
                f"progress is a function of a number and an outcome, which does not wait, not {watch!r:.50}."
            )
        if not manner.dry_run:
            await self._letters.release_stale_replaying()
        bulk = Bulk(self, self._letters, self._world, manner, progress)
        self.under_way.add(bulk)
        try:
            return await bulk.done(selection)
        finally:
            self.under_way.discard(bulk)

    def hold(self, letters: Sequence[FailedOperationData]) -> None:
        """Keep letters alive that were taken, until each was attempted or is let go."""
        for letter in letters:
            self._hold(letter)
        self._keep_beating()

    def _hold(self, letter: FailedOperationData) -> _Held:
        assert letter.replay_token is not None  # noqa: S101 -- whoever acquires gets one
        return self._held.setdefault(letter.replay_token, _Held(letter.id, letter.replay_token, None))

    def let_go(self, letter: FailedOperationData) -> None:
        """Keep a letter alive no longer."""
        self._held.pop(letter.replay_token or "", None)

    async def carry_out(self, letter: FailedOperationData, handle: Handle, trigger: ResolutionTrigger) -> ReplayOutcome:
        """Have *handle* replay a letter that is held under its token, in this task, and note what came of it."""
        ended = await self.attempt(letter, handle, trigger)
        [noted] = await self._letters.complete_many([ended.end])
        if ended.is_cancelled:
            raise asyncio.CancelledError
        if ended.interrupt is not None:
            raise ended.interrupt
        return ended.outcome(noted=noted)

    async def attempt(
        self,
        letter: FailedOperationData,
        handle: Handle,
        trigger: ResolutionTrigger,
        resolved_by_id: int | None = None,
    ) -> Ended:
        """Have *handle* replay a letter that is held under its token, in this task; return what is to be written.

        A cancelled replay counts as one that failed, and is returned like any other; unless its handler has ended all
        the same, as one on a thread does, or one that will not be stopped. So does whatever else the handler raises.
        """
        held = self._hold(letter)
        held.task, before = asyncio.current_task(), cancels()
        self._keep_beating()
        replay = Replayed(letter.domain, self._letters, held.task)
        mark = replayed.set(replay)
        error: BaseException | None = None
        try:
            if not held.lost:
                await handle(letter)
                error = next(iter(replay.failures), None)
        except BaseException as raised:  # noqa: BLE001 -- the handler's boundary: the letter's end is written first
            error = raised
        finally:
            replayed.reset(mark)
            replay.is_over = True
            self.let_go(letter)
        if held.is_stopped and held.task is not None:
            held.task.uncancel()
        return _ended(letter, held, error, trigger, resolved_by_id, is_cancelled=cancels() > before)

    def _keep_beating(self) -> None:
        if self._beats is None or self._beats.done():
            self._beats = asyncio.get_running_loop().create_task(self._beat(), name="holdfast-replay-beats")

    async def _beat(self) -> None:
        """Say of everything that is held that it is alive, as long as anything is held."""
        while self._held:
            await self._world.sleep(self.lease / _BEATS)
            await asyncio.gather(*map(self._extend, list(self._held.values())))

    async def _extend(self, held: _Held) -> None:
        try:
            alive = await self._letters.extend_replay(held.id, lease=self.lease, token=held.token)
        except HoldfastError as error:
            logger.warning("The replay of the dead letter %s could not be kept alive: %s", held.id, error)
            return
        if not alive and held.token in self._held:
            held.lost = True
            logger.warning("The dead letter %s was taken from its replay, which is stopped.", held.id)
            if held.task is not None:
                held.is_stopped = held.task.cancel()

    async def close(self) -> None:
        """End the replays under way, and then what keeps their letters alive."""
        await asyncio.gather(*(bulk.stop() for bulk in self.under_way))
        beats, self._beats = self._beats, None
        if beats is not None:
            beats.cancel()
            with suppress(asyncio.CancelledError):
                await beats


def _ended(
    letter: FailedOperationData,
    held: _Held,
    error: BaseException | None,
    trigger: ResolutionTrigger,
    resolved_by_id: int | None,
    *,
    is_cancelled: bool,
) -> Ended:
    if error is None:
        end = ReplayEnd(
            id=letter.id, token=held.token, success=not held.lost, resolution_type=trigger.value,
            resolved_by_id=resolved_by_id,
        )  # fmt: skip
        return Ended(letter, end, is_cancelled=is_cancelled)
    interrupt = error if isinstance(error, KeyboardInterrupt) else None
    stopped = isinstance(error, asyncio.CancelledError)
    why = "The replay was cancelled." if stopped else _text_of(error)
    note, details = why, {} if stopped else {"last_replay_error": traceback_of(error)}
    if HIDDEN in letter.request_data and not stopped and not isinstance(error, _OURS):
        note, details = type(error).__name__, {}  # what it says is hidden, as all of the call
    end = ReplayEnd(id=letter.id, token=held.token, success=False, note=note, error_details=details)
    return Ended(letter, end, why, is_cancelled, interrupt)


def _text_of(error: BaseException) -> str:
    """Return what is noted of an error, its beginning if it is long: no letter is to be too large to be written."""
    return door.text(f"{type(error).__name__}: {safe_text(error)}"[:_MOST_TEXT])


__all__ = ["CONCURRENCY", "LEASE", "Ended", "Find", "Manner", "Progress", "Replayer", "Selection"]
