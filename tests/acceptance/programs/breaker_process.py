"""One process of a fleet that shares circuit breakers: guards a dependency, or races for changes of a breaker."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from typing import Any

from holdfast.errors import CircuitOpen, HoldfastError
from holdfast.resilience import BreakerEvent, CircuitBreaker
from holdfast.stores import RedisCircuitBreakerStateRepository, SQLCircuitBreakerStateRepository
from holdfast.testing.program import obey, say

_AT_ONCE = 8


class Broken(Exception):
    """What the dependency raises."""


def opened(url: str, prefix: str) -> SQLCircuitBreakerStateRepository | RedisCircuitBreakerStateRepository:
    if url.startswith("redis"):
        return RedisCircuitBreakerStateRepository(url, prefix=prefix)
    return SQLCircuitBreakerStateRepository(url)


class Process:
    """Does what it is told, a line at a time."""

    def __init__(self, url: str, prefix: str = "holdfast", **options: Any) -> None:
        self.repository = opened(url, prefix)
        self.repository.initialize()
        self.breaker = CircuitBreaker("api", repository=self.repository, listeners=[self.listen], **options)

    def listen(self, event: BreakerEvent) -> None:
        if event.kind not in {"failed", "rejected"}:
            say("event", event.kind)

    def call(self, number: int, works: bool) -> None:
        """Call the dependency."""

        def depend() -> None:
            if not works:
                raise Broken

        try:
            self.breaker.call(depend)
            say("called", number, "fine")
        except Broken:
            say("called", number, "broken")
        except CircuitOpen as error:
            say("called", number, "refused", error.state)

    def calls(self, works: bool) -> None:
        """Call the dependency until the breaker is as the outcome of the calls would have it."""
        wanted = "closed" if works else "open"
        while self.breaker.state != wanted:
            try:
                with self.breaker:
                    if not works:
                        raise Broken
            except (Broken, CircuitOpen):
                threading.Event().wait(0.01)
        say("reached", wanted)

    def race(self, kind: str, rounds: int) -> None:
        """Take part in *rounds* of a race, several tasks at once; say how often one of them won."""
        say("raced", kind, self.repository.portal.call(self.rounds(kind, rounds)))

    async def rounds(self, kind: str, rounds: int) -> list[int]:
        run, crowd = getattr(self, f"{kind}_once"), 100 if kind == "count" else _AT_ONCE
        return [sum(await asyncio.gather(*(run(number) for _ in range(crowd)))) for number in range(rounds)]

    async def count_once(self, _: int) -> int:
        await self.repository.store.record_failure("counted")
        return 1

    async def open_once(self, number: int) -> int:
        return int((await self.repository.store.trip_to_open(f"open-{number}")).did_open)

    async def close_once(self, number: int) -> int:
        return int((await self.repository.store.record_success_with_close_check(f"close-{number}", 5)).did_close)

    async def slot_once(self, number: int) -> int:
        return int((await self.repository.store.try_acquire_half_open_slot(f"slot-{number}", 3, 60))[0])

    async def create_once(self, number: int) -> int:
        return int((await self.repository.store.get_or_create(f"create-{number}")).version == 1)

    def slots(self, name: str) -> None:
        """Hold all slots of a breaker."""
        say("slots", sum(self.repository.try_acquire_half_open_slot(name, 3, 3600)[0] for _ in range(5)))

    def count_blindly(self, amount: int) -> None:
        """Count one after the other while the storage comes and goes; say how many were acknowledged."""
        done = lost = 0
        for _ in range(amount):
            try:
                self.repository.record_failure("counted")
                done += 1
            except HoldfastError:
                lost += 1
            say("counted", done, lost)


def main() -> None:
    process = Process(**json.loads(sys.argv[1]))
    say("ready")
    obey(lambda verb, *arguments: getattr(process, verb)(*arguments))


if __name__ == "__main__":
    main()
