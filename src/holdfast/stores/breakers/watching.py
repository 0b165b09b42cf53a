"""Telling breakers what has become of them: by a poll, at once after a change of one's own, sooner after a hint."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, Protocol

from holdfast.errors import CannotDeserialize, HoldfastError
from holdfast.stores.breakers.documents import read

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from datetime import datetime

    from holdfast.model.breaker import CircuitBreakerStateData
    from holdfast.stores.breakers.interface import Watcher

logger = logging.getLogger("holdfast.breakers")

POLL_EVERY = 0.9  # so that a fleet without hints opens and closes together within a second
_SELDOM = 5.0  # while hints would be heard, and all breakers are closed: a process at rest
_SHORTEST = 0.05  # between two looks, however many hints come
_IN_VAIN = 0.25  # after a look that found nothing: most hints are about other things


class Sighting(NamedTuple):
    """A breaker as a look found it: its stamp, which every change makes anew, and its state; None if it is gone.

    Or the error of one that is there and cannot be read.
    """

    service_name: str
    stamp: str
    record: CircuitBreakerStateData | None
    now: datetime
    unreadable: CannotDeserialize | None = None


def sighted(service_name: str, stamp: str, text: str | bytes | None, now: datetime) -> Sighting:
    """Return what a look has found: *text* is the stored record. One that cannot be read is nobody else's trouble."""
    try:
        return Sighting(service_name, stamp, read(text) if text else None, now)
    except CannotDeserialize as error:
        return Sighting(service_name, stamp, None, now, error)


class Hints(Protocol):
    """What tells other processes of a change, and is heard by them; nothing rests on it."""

    @property
    def alive(self) -> bool:
        """Whether a hint from another process would be heard now; when it becomes so a look is asked for."""

    def tell(self) -> None:
        """Tell other processes soon; on the loop."""


class Watching:
    """The watchers of one repository. *look* returns the breakers whose stamps are not those it is given."""

    def __init__(
        self, look: Callable[[Mapping[str, str]], Awaitable[Sequence[Sighting]]], interval: float = POLL_EVERY
    ) -> None:
        self._look = look
        self._interval = interval
        self.hints: Hints | None = None
        self._watchers: dict[str, list[Watcher]] = {}
        self._stamps: dict[str, str | None] = {}
        self._last: dict[str, Sighting] = {}
        self._changes = 0  # made from here so far
        self._changed: dict[str, int] = {}  # the number of the last one of each breaker
        self._woken: asyncio.Event | None = None
        self._task: asyncio.Task[None] | None = None
        self._away = False

    def add(self, service_name: str, watcher: Watcher) -> Callable[[], None]:
        """Tell *watcher* soon, and after every change; on the loop. Return what ends that."""
        self._watchers.setdefault(service_name, []).append(watcher)
        self._stamps[service_name] = None  # so that the next look tells, even what others know already
        if self._task is None or self._task.done() or self._task.get_loop() is not asyncio.get_running_loop():
            self._woken = asyncio.Event()
            self._task = asyncio.create_task(self._run(), name="holdfast-breakers")
        self.wake()

        def end() -> None:
            left = [each for each in self._watchers.get(service_name, ()) if each is not watcher]
            if left:
                self._watchers[service_name] = left
            else:
                self._watchers.pop(service_name, None)
                self._stamps.pop(service_name, None)
                self._last.pop(service_name, None)
                self._changed.pop(service_name, None)

        return end

    def wake(self) -> None:
        """Look now: somebody has changed something; on the loop."""
        if self._woken is not None:
            self._woken.set()

    def changed(self, sighting: Sighting) -> None:
        """Tell the watchers of a breaker that was changed from here, and other processes."""
        if sighting.service_name in self._stamps:
            self._changes += 1
            self._changed[sighting.service_name] = self._changes
            last = self._last.get(sighting.service_name)
            if last is not None and _is_older(sighting, last):
                self.wake()  # unless a clock was set back: the next look knows
            else:
                self._tell(sighting)
        if self.hints is not None:
            self.hints.tell()

    async def stop(self) -> None:
        """Look no more, and say so to those who watch."""
        task, self._task = self._task, None
        if task is not None:
            await ended(task)
        watchers, self._watchers, self._stamps, self._last, self._changed = self._watchers, {}, {}, {}, {}
        for each in watchers.values():
            for watcher in each:
                watcher.ended()

    async def _run(self) -> None:
        woken = self._woken
        assert woken is not None  # noqa: S101 -- made with the task
        while self._watchers:
            woken.clear()
            pause, changes = _SHORTEST, self._changes
            try:
                found = await self._look({name: stamp or "" for name, stamp in self._stamps.items()})
                pause = self._found(found, changes)
            except HoldfastError as error:
                self._lost(error)
            except Exception as error:
                # The service loop: breakers that hear nothing any more would stay open for ever.
                logger.exception("Looking at the breakers failed and is tried again.")
                self._lost(error)
            await asyncio.sleep(pause)
            with suppress(TimeoutError):
                async with asyncio.timeout(self.patience() - pause):
                    await woken.wait()

    def patience(self) -> float:
        """Return the seconds from one look to the next if nobody wakes it meanwhile."""
        return max(self._interval, _SELDOM) if self._is_at_rest() else self._interval

    def _is_at_rest(self) -> bool:
        """Whether nothing is waited for but what others would tell."""
        if self._away or self.hints is None or not self.hints.alive:
            return False
        return all(each.record is None or each.record.is_closed for each in self._last.values())

    def _found(self, sightings: Sequence[Sighting], changes: int) -> float:
        """Tell of what a look has found that began after so many *changes*; return how long not to look again."""
        if self._away:
            self._away = False
            logger.info("The storage of breakers is back.")
            self._stamps = dict.fromkeys(self._stamps)  # everybody is told, also of what has not changed
            self.wake()
        for sighting in sightings:
            if self._changed.get(sighting.service_name, 0) > changes:
                self.wake()  # it was changed during the look, which may have found what was there before
            elif sighting.service_name in self._stamps:
                self._tell(sighting)
        return _SHORTEST if sightings else min(_IN_VAIN, self._interval)

    def _tell(self, sighting: Sighting) -> None:
        self._stamps[sighting.service_name] = sighting.stamp
        self._last[sighting.service_name] = sighting
        if sighting.unreadable is not None:
            logger.error("%s Until then each process goes by what it sees itself.", sighting.unreadable)
        for watcher in list(self._watchers[sighting.service_name]):
            if sighting.unreadable is None:
                watcher.seen(sighting.record, sighting.now)
            else:
                watcher.away(sighting.unreadable)

    def _lost(self, error: Exception) -> None:
        if not self._away:
            self._away = True
            logger.warning("The storage of breakers is away; they go on by what each process sees itself: %s", error)
            for watchers in list(self._watchers.values()):
                for watcher in list(watchers):
                    watcher.away(error)


async def ended(task: asyncio.Task[None]) -> None:
    """Have *task* end. It is told until it does: a driver may swallow a cancellation that comes with an answer."""
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=0.1)


def _is_older(sighting: Sighting, last: Sighting) -> bool:
    """Whether the answer to a change has come later than a look that has found what became of the breaker after it."""
    one, other = sighting.record, last.record
    if one is not None and other is not None and one.created_at == other.created_at:
        return one.version < other.version
    return sighting.now < last.now


__all__ = ["POLL_EVERY", "Hints", "Sighting", "Watching", "ended", "sighted"]
