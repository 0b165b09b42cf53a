"""Five-step workflows beside the yardstick and DBOS, in one run.

Promised: 100 at once on ``AsyncHoldfast``: at least 60 % of the yardstick and 100 times DBOS, on PostgreSQL and on
SQLite; ``Holdfast`` with 100 threads: 30 times DBOS with 100 threads. One sequential workflow of 1 and of 10 steps: at
most twice the yardstick's latency. MariaDB: measured.

Ours and the yardstick take turns on one database; ours and DBOS, which is a process of its own, on a new one each.
"""

from __future__ import annotations

import asyncio
import statistics
import threading
import time
from functools import partial
from typing import TYPE_CHECKING

from yard.databases import SQL, makers
from yard.ideal import ideal_engine, ideal_workflow
from yard.options import Options
from yard.peers import peer
from yard.table import alternating, print_table

from holdfast import AsyncHoldfast, Holdfast

if TYPE_CHECKING:
    import argparse
    from collections.abc import Awaitable, Callable

_DBOS = ["dbos==3.3.0"]


async def _rate(workflow: Callable[[], Awaitable[object]], at_once: int, runs: int) -> float:
    turns = iter(range(runs))

    async def task() -> None:
        for _ in turns:
            await workflow()

    begun = time.perf_counter()
    await asyncio.gather(*(task() for _ in range(at_once)))
    return runs / (time.perf_counter() - begun)


async def _latency(workflow: Callable[[], Awaitable[object]], runs: int) -> float:
    """Milliseconds of one workflow, the median of many run one after the other."""
    spans = []
    for _ in range(runs):
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


async def _measure(url: str, runs: int, rounds: int) -> dict[str, tuple[float, float | None]]:
    """Return (ours, yardstick) by measurement."""
    found: dict[str, tuple[float, float | None]] = {}
    ideal = ideal_engine(url)
    if ideal is not None:
        await ideal.open()
    app, count = _app(url)

    async def both(measure: Callable[..., Awaitable[float]], steps: int, *numbers: int) -> tuple[float, float | None]:
        ours = partial(measure, partial(count, steps), *numbers)
        if ideal is None:
            return (await alternating(rounds, ours))[0], None
        mine, best = await alternating(rounds, ours, partial(measure, partial(ideal_workflow, ideal, steps), *numbers))
        return mine, best

    async with app:
        await _rate(lambda: count(2), 20, 200)
        for steps in (1, 10):
            found[f"ms, {steps} steps"] = await both(_latency, steps, max(1, runs * 3 // 40))
        for at_once in (10, 100, 500):
            found[f"async {at_once}"] = await both(_rate, 5, at_once, runs)
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


async def _at_once(url: str, at_once: int, runs: int) -> float:
    app, count = _app(url)
    async with app:
        await _rate(lambda: count(2), 20, 200)
        return await _rate(lambda: count(5), at_once, runs)


def _dbos(url: str, mode: str, at_once: int, runs: int) -> dict[str, float]:
    return peer("dbos", _DBOS, "dbos_workflows.py", url, mode, str(at_once), str(runs))[0]


def _beside_dbos(name: str, make: Callable[[], str], given: argparse.Namespace) -> list[tuple[object, ...]]:
    """Return rows of what 100 tasks and 100 threads come to, ours and DBOS in turn; the medians count."""
    rows: list[tuple[object, ...]] = []
    for measure, mode, runs in (
        ("async 100", "async", given.runs),
        ("100 threads", "threads", max(1, given.runs // 2)),
    ):
        ours, theirs = [], []
        for _ in range(given.rounds):
            is_async = mode == "async"
            ours.append(asyncio.run(_at_once(make(), 100, runs)) if is_async else _threads(make(), 100, runs))
            if _has_dbos(name, given):
                theirs.append(_dbos(make(), mode, 100, 300)["per_second"])
        beside: tuple[object, ...] = ("-", "-")
        if theirs:
            beside = statistics.median(theirs), f"{statistics.median(ours) / statistics.median(theirs):.0f}x"
        rows.append((name, measure, statistics.median(ours), *beside))
    return rows


def _has_dbos(name: str, given: argparse.Namespace) -> bool:
    return name != "mariadb" and not given.no_peers


def _beside_yardstick(name: str, make: Callable[[], str], given: argparse.Namespace) -> list[tuple[object, ...]]:
    latency = _dbos(make(), "latency", 1, 40) if _has_dbos(name, given) else {}
    rows: list[tuple[object, ...]] = []
    for measure, (ours, best) in asyncio.run(_measure(make(), given.runs, given.rounds)).items():
        ratio: object = "-"
        if best is not None:
            ratio = f"{ours / best:.2f}x" if measure.startswith("ms") else f"{ours / best:.0%}"
        steps = measure.removeprefix("ms, ").removesuffix(" steps")
        rows.append((name, measure, ours, best or "-", ratio, latency.get(f"ms_{steps}", "-")))
    return rows


def main() -> None:
    options = Options(__doc__, databases=SQL, peers=True)
    options.number("runs", 2_000, "workflows of a measurement; half as many with threads, fewer one after the other")
    options.number("rounds", 5, "rounds in turn, whose median counts")
    given = options.parse_args()
    yardstick: list[tuple[object, ...]] = []
    dbos: list[tuple[object, ...]] = []
    with makers(*given.databases) as made:
        for name, make in made.items():
            yardstick += _beside_yardstick(name, make, given)
            dbos += _beside_dbos(name, make, given)
    columns = ["database", "measure", "holdfast", "yardstick", "ratio", "DBOS"]
    print_table("Workflows of 5 steps a second; latency of one workflow in ms", columns, yardstick)
    print_table("The same in turn with DBOS", ["database", "measure", "holdfast", "DBOS", "ratio"], dbos)


if __name__ == "__main__":
    main()
