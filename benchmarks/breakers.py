"""A call through a closed circuit breaker, beside pybreaker, purgatory and Baldur; and what ``protect`` costs.

Promised: under 1.5 us a call sync and under 3 us async, whatever the repository, no more than pybreaker's; ``protect``
with everything on under 10 us over the bare call, here with idempotency keys in memory: one in a database costs its
commits. A sync function with a timeout runs on a thread of its own, unless it may be interrupted, and does not reach
that. Figures are those of the best round, which is the least disturbed one.
"""

from __future__ import annotations

import asyncio
import itertools
import tempfile
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from yard.options import Options
from yard.peers import peer
from yard.table import print_table

from holdfast import AsyncHoldfast, Holdfast, Retry
from holdfast.resilience import CircuitBreaker
from holdfast.stores import InMemoryIdempotencyStore, SQLCircuitBreakerStateRepository

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_THREADS_CALLS = 2_000  # at most: a thread takes much longer
_PEERS = ["baldur-framework==1.17.1", "pybreaker==1.4.1", "purgatory==3.0.1"]


_numbers = itertools.count()


def work(number: int = 0) -> int:
    return number


async def work_async(number: int = 0) -> int:
    return number


@dataclass(frozen=True, slots=True)
class _Rounds:
    """So many rounds of so many calls; what counts are the microseconds of a call in the best of them."""

    rounds: int
    calls: int

    def best(self, call: Callable[[], Any]) -> float:
        taken = []
        for _ in range(self.rounds):
            began = time.perf_counter()
            for _ in range(self.calls):
                call()
            taken.append((time.perf_counter() - began) / self.calls * 1e6)
        return min(taken)

    async def best_async(self, call: Callable[[], Awaitable[Any]]) -> float:
        taken = []
        for _ in range(self.rounds):
            began = time.perf_counter()
            for _ in range(self.calls):
                await call()
            taken.append((time.perf_counter() - began) / self.calls * 1e6)
        return min(taken)


def _in_memory() -> Any:
    """Return the options that put a call under an idempotency key that is kept in memory."""
    return {"idempotency_key": lambda number: f"order-{number}", "idempotency_store": InMemoryIdempotencyStore()}


def _blocks(breaker: CircuitBreaker) -> Callable[[], None]:
    def block() -> None:
        with breaker:
            work()

    return block


def _hand_over(threads: _Rounds) -> float:
    """Return what it takes to hand something to a thread that waits, and to get it back: two locks and nothing else."""
    there, back = threading.Lock(), threading.Lock()
    there.acquire()
    back.acquire()

    def echo() -> None:
        for _ in range(threads.calls * threads.rounds):
            there.acquire()
            back.release()

    def call() -> None:
        there.release()
        back.acquire()

    threading.Thread(target=echo, daemon=True).start()
    return threads.best(call)


def _sync(url: str, rounds: _Rounds) -> list[tuple[str, float]]:
    best, threads = rounds.best, _Rounds(rounds.rounds, min(rounds.calls, _THREADS_CALLS))
    rows = [("bare call", best(work))]
    alone = CircuitBreaker("alone")
    rows.append(("call", best(lambda: alone.call(work))))
    rows.append(("with", best(_blocks(alone))))
    every: Any = {
        "slow_call_rate": 0.5,
        "slow_call_duration": 1,
        "window_duration": 10,
        "failed_result": lambda _: False,
    }
    rules = CircuitBreaker("rules", **every)
    rows.append(("call, all rules, a window of time", best(lambda: rules.call(work))))
    with SQLCircuitBreakerStateRepository(url) as repository:
        shared = CircuitBreaker("shared", repository=repository)
        rows.append(("call, shared through SQLite", best(lambda: shared.call(work))))
    app = Holdfast(url, name="bench")
    protected = app.protect("plain", retry=Retry(), fallback=None, dead_letter=True)(work)
    every_layer: Any = {"retry": Retry(), "timeout": 10, "fallback": None, "dead_letter": True}
    interrupted = app.protect("interrupted", interrupt=True, **every_layer)(work)
    keyed = app.protect("keyed", interrupt=True, **every_layer, **_in_memory())(work)
    timed = app.protect("timed", **every_layer)(work)
    with app:
        rows.append(("protect: retry, breaker, fallback, dead letter", best(protected)))
        rows.append(("protect: the same and a timeout that interrupts", best(interrupted)))
        rows.append(("protect: the same and a key in memory, new", best(lambda: keyed(next(_numbers)))))
        rows.append(("protect: the same, a known key", best(lambda: keyed(0))))
        rows.append(("protect: all but a key, and a timeout (a thread)", threads.best(timed)))
        rows.append(("two bare threads, a lock each way", _hand_over(threads)))
    return rows


async def _async(url: str, rounds: _Rounds) -> list[tuple[str, float]]:
    best_async = rounds.best_async
    rows = [("async: bare call", await best_async(work_async))]
    alone = CircuitBreaker("alone")
    rows.append(("async: call", await best_async(lambda: alone.call_async(work_async))))
    app = AsyncHoldfast(url, name="bench")
    shared = app.breaker("shared")(work_async)
    every_layer: Any = {"retry": Retry(), "timeout": 10, "fallback": None, "dead_letter": True}
    protected = app.protect("all", **every_layer)(work_async)
    keyed = app.protect("keyed", **every_layer, **_in_memory())(work_async)
    async with app:
        rows.append(("async: decorated, shared through SQLite", await best_async(shared)))
        rows.append(("async: protect: all but a key", await best_async(protected)))
        new = await best_async(lambda: keyed(next(_numbers)))
        rows.append(("async: protect: everything, a key in memory, new", new))
        rows.append(("async: protect: everything, a known key", await best_async(lambda: keyed(0))))
    return rows


def main() -> None:
    """Print the table."""
    options = Options(__doc__, peers=True)
    options.number("calls", 50_000, "calls of each kind in a round")
    options.number("rounds", 5, "rounds, of which the best counts")
    given = options.parse_args()
    rounds = _Rounds(given.rounds, given.calls)
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/bench.sqlite"
        rows = _sync(url, rounds) + asyncio.run(_async(url, rounds))
    others = [] if given.no_peers else peer("breakers", _PEERS, "breakers.py")
    rows += [(each["name"], each["us"]) for each in others if each["name"] != "bare call"]
    print_table("A call that succeeds, a closed breaker", ("what", "us"), rows)


if __name__ == "__main__":
    main()
