"""An idle queue: from the call of enqueue to the first line of the run, in ms, beside the peers.

Promised: in one process p50 under 3 ms and p99 under 15 ms on PostgreSQL and SQLite; between two processes p50 under
5 ms on PostgreSQL and under 100 ms on SQLite. MariaDB, which nobody is woken by, and the peers: measured.

Between two calls there are 50 to 250 ms, so nothing else waits. ``--samples`` makes it shorter.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from typing import TYPE_CHECKING

from yard.databases import databases
from yard.machine import load
from yard.peers import peer
from yard.queue_app import QUEUE, queue_app, workers
from yard.table import print_table

from holdfast.testing.servers import PostgresServer

if TYPE_CHECKING:
    from typing import Any

_PEERS: list[tuple[str, list[str], list[str]]] = [
    ("DBOS, poll 1 s", ["dbos==3.3.0"], ["1.0"]),
    ("DBOS, poll 0.05 s", ["dbos==3.3.0"], ["0.05"]),
    ("Absurd", ["absurd-sdk==0.5.1", "absurdctl==0.5.1", "psycopg[binary]"], []),
    ("Procrastinate", ["procrastinate==3.10.0", "psycopg[binary]"], []),
]
_PEER_SAMPLES = 40


async def _spans(noop: Any, samples: int) -> list[float]:
    queued, spans = noop.options(queue_name=QUEUE), []
    for number in range(samples):
        await asyncio.sleep(0.05 + 0.2 * (number * 0.618 % 1))
        begun = time.monotonic()
        handle = await queued.enqueue(number)
        spans.append((await handle.result() - begun) * 1000)
    return sorted(spans)


async def _measure(url: str, samples: int, *, elsewhere: bool) -> tuple[float, float]:
    app, noop = queue_app(url, works=not elsewhere)
    async with app:
        await app.register_queue(QUEUE)
        async with workers(url, int(elsewhere)):
            await _spans(noop, 5)
            spans = await _spans(noop, samples)
    return spans[len(spans) // 2], spans[int(len(spans) * 0.99)]


def _peers() -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    with PostgresServer() as postgres:
        for title, requirements, setting in _PEERS:
            name = title.split(",")[0].lower()
            arguments = ("latency", postgres.create_database(), str(_PEER_SAMPLES), *setting)
            found = peer(name, requirements, f"{name}_queue.py", *arguments)[0]
            rows.append(("postgres", title, "one", found["p50"], found["p99"], load()))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=300)
    parser.add_argument("--no-peers", action="store_true")
    options = parser.parse_args()
    rows: list[tuple[object, ...]] = []
    with databases() as urls:
        for name, url in urls.items():
            for elsewhere in (False, True):
                p50, p99 = asyncio.run(_measure(url, options.samples, elsewhere=elsewhere))
                rows.append((name, "holdfast", "two" if elsewhere else "one", p50, p99, load()))
    rows += [] if options.no_peers else _peers()
    columns = ["database", "system", "processes", "p50 ms", "p99 ms", "load"]
    print_table("Idle queue, enqueue to start", columns, rows)


if __name__ == "__main__":
    main()
