"""Messages and events in one process: from the call of send to the return of recv, and the like for events, in ms.

Promised: send to recv and set_event to get_event at p50 under 4 ms on PostgreSQL and SQLite; ten thousand messages to
one run cost the same each as a thousand. Beside DBOS in the same run: both take turns for some rounds, and the best of
each counts, which others on the machine have disturbed least.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from yard.databases import SQL, databases
from yard.machine import load
from yard.options import Options
from yard.peers import peer
from yard.table import print_table

from holdfast import AsyncHoldfast, Message

if TYPE_CHECKING:
    import argparse
    from typing import Any

_PAUSE = 0.05  # everybody is at rest again


def _app(url: str, received: asyncio.Queue[float]) -> tuple[AsyncHoldfast, Any, Any]:
    app = AsyncHoldfast(url)

    @app.workflow(name="receiver")
    async def receiver(messages: int) -> None:
        for _ in range(messages):
            await app.recv("t", timeout=None)
            received.put_nowait(time.perf_counter())

    @app.workflow(name="setter")
    async def setter(events: int) -> None:
        for number in range(events):
            await app.recv("go", timeout=None)
            received.put_nowait(time.perf_counter())
            await app.set_event(f"k{number}", number)

    return app, receiver, setter


async def _messages(app: AsyncHoldfast, receiver: Any, received: asyncio.Queue[float], samples: int) -> list[float]:
    run = await receiver.start(samples)
    spans = []
    for number in range(samples):
        await asyncio.sleep(_PAUSE)
        begun = time.perf_counter()
        await app.send(run.workflow_id, number, "t")
        spans.append((await received.get() - begun) * 1000)
    await run.result()
    return sorted(spans)


async def _events(app: AsyncHoldfast, setter: Any, received: asyncio.Queue[float], samples: int) -> list[float]:
    """Take the time from just before ``set_event`` to the return of a ``get_event`` that waits for it."""
    run = await setter.start(samples)
    spans = []
    for number in range(samples):
        waiting = asyncio.create_task(app.get_event(run.workflow_id, f"k{number}", timeout=60))
        await asyncio.sleep(_PAUSE)
        await app.send(run.workflow_id, number, "go")
        await waiting
        ended = time.perf_counter()
        spans.append((ended - await received.get()) * 1000)
    await run.result()
    return sorted(spans)


async def _each(app: AsyncHoldfast, receiver: Any, received: asyncio.Queue[float], messages: int) -> float:
    """Return what one of many messages costs, sent and received, in ms."""
    run = await receiver.start(messages)
    begun = time.perf_counter()
    await app.send_many([Message(run.workflow_id, number, "t") for number in range(messages)])
    await run.result()
    while not received.empty():
        received.get_nowait()
    return (time.perf_counter() - begun) * 1000 / messages


async def _measure(name: str, url: str, given: argparse.Namespace) -> tuple[list[Any], list[Any]]:
    received: asyncio.Queue[float] = asyncio.Queue()
    app, receiver, setter = _app(url, received)
    async with app:
        await _messages(app, receiver, received, 10)
        rows: list[Any] = []
        for what, measure, flow in (("send to recv", _messages, receiver), ("set to get", _events, setter)):
            spans = await measure(app, flow, received, given.samples)
            middle, late = spans[len(spans) // 2], spans[int(len(spans) * 0.99)]
            rows.append((name, what, "holdfast", len(spans), middle, late, load()))
        few = await _each(app, receiver, received, given.many // 10)
        many = await _each(app, receiver, received, given.many)
    return rows, [(name, given.many // 10, few, given.many, many, many / few, load())]


def _peers(urls: dict[str, str], samples: int) -> list[Any]:
    rows: list[Any] = []
    for name, url in urls.items():
        if name == "mariadb":
            continue
        calls = max(5, samples // 20) if name == "sqlite" else max(1, samples // 2)
        answers = peer("dbos", ["dbos==3.3.0"], "dbos_messages.py", url, str(calls))
        rows += [(name, found["what"], "DBOS", calls, found["p50"], found["p99"], load()) for found in answers]
    return rows


def _linear(costs: list[Any]) -> list[Any]:
    """Return for each database the smallest cost of a few and of many, and their ratio."""
    rows = []
    for name in dict.fromkeys(row[0] for row in costs):
        found = [row for row in costs if row[0] == name]
        few, many = min(row[2] for row in found), min(row[4] for row in found)
        rows.append((name, found[0][1], few, found[0][3], many, many / few, found[-1][6]))
    return rows


def _best(rows: list[Any], keys: int, by: int) -> list[Any]:
    """Return of the rows that have their first *keys* columns in common the one with the smallest at *by*."""
    best: dict[Any, Any] = {}
    for row in rows:
        best[row[:keys]] = min(best.get(row[:keys], row), row, key=lambda each: each[by])
    return sorted(best.values(), key=lambda row: row[:keys])


def main() -> None:
    options = Options(__doc__, databases=SQL, peers=True)
    options.number("samples", 200, "messages, and events, whose way is timed in a round; a peer's are fewer")
    options.number("many", 10_000, "messages to one run, beside a tenth of them", allowed=range(10, 10_000_001))
    options.number("rounds", 3, "rounds in turn with the peer")
    given = options.parse_args()
    waits: list[Any] = []
    costs: list[Any] = []
    for _ in range(given.rounds):
        with databases(*given.databases) as urls:
            for name, url in urls.items():
                wait, cost = asyncio.run(_measure(name, url, given))
                waits += wait
                costs += cost
        if not given.no_peers:
            with databases(*given.databases) as urls:
                waits += _peers(urls, given.samples)
    waits, costs = _best(waits, 3, 4), _linear(costs)
    columns = ["database", "what", "system", "calls", "p50 ms", "p99 ms", "load"]
    print_table("Messages and events in one process", columns, waits)
    columns = ["database", "messages", "ms each", "messages", "ms each", "ratio", "load"]
    print_table("Many messages to one run", columns, costs)


if __name__ == "__main__":
    main()
