"""Five-step workflows beside the yardstick and DBOS, in one run.

Promised: 100 at once on ``AsyncHoldfast``: at least 60 % of the yardstick and 100 times DBOS, on PostgreSQL and on
SQLite; ``Holdfast`` with 100 threads: 30 times DBOS with 100 threads. One sequential workflow of 1 and of 10 steps: at
most twice the yardstick's latency. MariaDB: measured.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import threading
import time
from functools import partial
from typing import TYPE_CHECKING

from yard.databases import databases
from yard.ideal import ideal_engine, ideal_workflow
from yard.peers import peer
from yard.table import alternating, print_table

from holdfast import AsyncHoldfast, Holdfast

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_ROUNDS = 3
_DBOS = ["dbos==3.3.0"]


async def _rate(workflow: Callable[[], Awaitable[object]], at_once: int, runs: int) -> float:
    turns = iter(range(runs))

    async def task() -> None:
        for _ in turns:
            await workflow()

    begun = time.perf_counter()
    await asyncio.gather(*(task() for _ in range(at_once)))
    return runs / (time.perf_counter() - begun)


async def _latency(workflow: Callable[[], Awaitable[object]]) -> float:
    """Milliseconds of one workflow, the median of many run one after the other."""
    spans = []
    for _ in range(150):
        begun = time.perf_counter()
        await workflow()
        spans.append(time.perf_counter() - begun)
    return statistics.median(spans) * 1000


def _app(url: str) -> tuple[AsyncHoldfast, Callable[[int], Awaitable[int]]]:
    app = AsyncHoldfast(url)

    @app.step
    async def add(a: int, b: int) -> int:
        return a + b

    @app.workflow
    async def count(steps: int) -> int:
        total = 0
        for number in range(steps):
            total = await add(total, number)
        return total

    return app, count


async def _measure(url: str) -> dict[str, tuple[float, float | None]]:
    """Return (ours, yardstick) by measurement."""
    found: dict[str, tuple[float, float | None]] = {}
    ideal = ideal_engine(url)
    if ideal is not None:
        await ideal.open()
    app, count = _app(url)
    async with app:
        await _rate(lambda: count(2), 20, 200)
        for at_once in (100, 500):
            ours = partial(_rate, lambda: count(5), at_once, 2000)
            if ideal is None:
                found[f"async {at_once}"] = ((await alternating(_ROUNDS, ours))[0], None)
                continue
            mine, best = await alternating(
                _ROUNDS, ours, partial(_rate, partial(ideal_workflow, ideal, 5), at_once, 2000)
            )
            found[f"async {at_once}"] = (mine, best)
        for steps in (1, 10):
            ours = partial(_latency, partial(count, steps))
            if ideal is None:
                found[f"ms, {steps} steps"] = ((await alternating(_ROUNDS, ours))[0], None)
                continue
            mine, best = await alternating(_ROUNDS, ours, partial(_latency, partial(ideal_workflow, ideal, steps)))
            found[f"ms, {steps} steps"] = (mine, best)
    if ideal is not None:
        await ideal.close()
    return found


def _threads(url: str, at_once: int, runs: int) -> float:
    app = Holdfast(url)

    @app.step
    def add(a: int, b: int) -> int:
        return a + b

    @app.workflow
    def five(x: int) -> int:
        for number in range(5):
            x = add(x, number)
        return x

    turns, lock = iter(range(runs)), threading.Lock()

    def work() -> None:
        while True:
            with lock:
                number = next(turns, None)
            if number is None:
                return
            five(number)

    with app:
        five(0)
        threads = [threading.Thread(target=work) for _ in range(at_once)]
        begun = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return runs / (time.perf_counter() - begun)


def _ratio(ours: float, other: float | None, *, less_is_better: bool = False) -> str:
    if other is None:
        return "-"
    return f"{ours / other:.2f}x" if less_is_better or ours / other > 3 else f"{ours / other:.0%}"


def _dbos(name: str, url: str) -> dict[str, float]:
    if name == "mariadb":
        return {}
    asynchronous = peer("dbos", _DBOS, "dbos_workflows.py", url, "async", "100", "300")[0]["per_second"]
    threads = peer("dbos", _DBOS, "dbos_workflows.py", url, "threads", "100", "300")[0]["per_second"]
    latency = peer("dbos", _DBOS, "dbos_workflows.py", url, "latency", "1", "40")[0]
    return {
        "async 100": asynchronous,
        "100 threads": threads,
        "ms, 1 steps": latency["ms_1"],
        "ms, 10 steps": latency["ms_10"],
    }


def main() -> None:
    rows: list[tuple[object, ...]] = []
    with databases() as urls:
        for name, url in urls.items():
            found = asyncio.run(_measure(url))
            found["100 threads"] = (statistics.median(_threads(url, 100, 1000) for _ in range(_ROUNDS)), None)
            peers = {} if "--no-peers" in sys.argv else _dbos(name, f"{url}.dbos" if name == "sqlite" else url)
            for measure, (ours, best) in found.items():
                less = measure.startswith("ms")
                other = peers.get(measure)
                rows.append(
                    (
                        name,
                        measure,
                        ours,
                        best or "-",
                        _ratio(ours, best, less_is_better=less),
                        other or "-",
                        _ratio(ours, other, less_is_better=less),
                    )
                )
    columns = ["database", "measure", "holdfast", "yardstick", "ratio", "DBOS", "ratio"]
    print_table("Workflows of 5 steps a second; latency of one workflow in ms", columns, rows)


if __name__ == "__main__":
    main()
