"""A world for tests: time stands still until it is told to move, and a seed makes every id and draw repeat."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import random

from holdfast.model.world import uuid7

_MORNING = 1_800_000_000.0


class VirtualWorld:
    """Time, sleep, ids and randomness owned by a test, for one event loop.

    ``sleep`` ends when ``advance`` has moved time past its end; sleepers wake in the order of their ends, and each
    runs before time moves on to the next.
    """

    for_one_loop = True

    def __init__(self, *, seed: int = 0, now: float = _MORNING) -> None:
        self.random = random.Random(seed)  # noqa: S311 -- to be repeatable is the point
        self._now = now
        self._passed = 0.0
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._watchers: list[asyncio.Event] = []

    def now(self) -> float:
        """Return the wall-clock time this world shows."""
        return self._now

    def monotonic(self) -> float:
        """Return how many seconds have passed since this world was made."""
        return self._passed

    async def sleep(self, seconds: float) -> None:
        """Wait until *seconds* of this world's time have passed."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._passed + seconds, next(self._order), woken))
        for asleep in self._watchers:
            asleep.set()
        await woken

    def new_id(self) -> str:
        """Return the next id of this world."""
        return uuid7(int(self._now * 1000), self.random.randbytes(10))

    def set_clock(self, now: float) -> None:
        """Set the wall clock, back or forth, without letting time pass."""
        self._now = now

    @property
    def sleepers(self) -> int:
        """How many tasks are asleep."""
        return sum(not woken.done() for _, _, woken in self._sleepers)

    async def until_asleep(self, count: int) -> None:
        """Wait until *count* tasks are asleep: what is still at work misses the time that passes meanwhile."""
        asleep = asyncio.Event()
        self._watchers.append(asleep)
        try:
            while self.sleepers < count:
                asleep.clear()
                await asleep.wait()
        finally:
            self._watchers.remove(asleep)

    async def advance(self, seconds: float) -> None:
        """Let *seconds* pass, waking each sleeper at its own moment; tasks just begun fall asleep before that."""
        await self._let_others_run()
        end = self._passed + seconds
        while self._sleepers and self._sleepers[0][0] <= end:
            due, _, woken = heapq.heappop(self._sleepers)
            self._move_to(due)
            if not woken.done():
                woken.set_result(None)
            await self._let_others_run()
        self._move_to(end)
        await self._let_others_run()

    def _move_to(self, passed: float) -> None:
        self._now += passed - self._passed
        self._passed = passed

    @staticmethod
    async def _let_others_run() -> None:
        for _ in range(10):  # a woken task may wake others, which wake others
            await asyncio.sleep(0)
