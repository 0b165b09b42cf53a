"""An idle queue: from the call of enqueue to the first line of the run, in ms, beside the peers.

Promised: in one process p50 under 3 ms and p99 under 15 ms on PostgreSQL and SQLite; between two processes p50 under
5 ms on PostgreSQL and under 100 ms on SQLite. MariaDB, which nobody is woken by, and the peers: measured.

Nothing else waits. Between two calls there are 2 to 3 s, so that everybody is at rest and a call falls anywhere between
two polls; a pause that is shorter than the poll follows its beat, and then measures that. For p99, which takes many
calls, also 50 to 250 ms where runs are woken.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from yard.databases import SQL, databases, makers
from yard.machine import load
from yard.options import Options
from yard.peers import peer
from yard.queue_app import QUEUE, queue_app, workers
from yard.table import print_table

if TYPE_CHECKING:
    import argparse
    from typing import Any

_PEERS: list[tuple[str, list[str], list[str]]] = [
    ("DBOS, poll 1 s", ["dbos==3.3.0"], ["1.0"]),
    ("DBOS, poll 0.05 s", ["dbos==3.3.0"], ["0.05"]),
    ("Absurd", ["absurd-sdk==0.5.1", "absurdctl==0.5.1", "psycopg[binary]"], []),
    ("Procrastinate", ["procrastinate==3.10.0", "psycopg[binary]"], []),
]
_SHORT, _LONG = (0.05, 0.2), (2.0, 1.0)  # at least so many seconds, and up to so many more


async def _spans(noop: Any, samples: int, pause: tuple[float, float]) -> list[float]:
    queued, spans = noop.options(queue_name=QUEUE), []
    for number in range(samples):
        await asyncio.sleep(pause[0] + pause[1] * (number * 0.618 % 1))
        begun = time.monotonic()
        handle = await queued.enqueue(number)
        spans.append((await handle.result() - begun) * 1000)
    return sorted(spans)


async def _measure(name: str, url: str, given: argparse.Namespace, *, elsewhere: bool) -> list[tuple[object, ...]]:
    app, noop = queue_app(url, works=not elsewhere)
    processes = "two" if elsewhere else "one"
    rows: list[tuple[object, ...]] = []
    async with app:
        await app.register_queue(QUEUE)
        async with workers(url, int(elsewhere)):
            await _spans(noop, 5, _SHORT)
            if name != "mariadb" or not elsewhere:
                spans = await _spans(noop, given.samples, _SHORT)
                rows.append((name, "holdfast", processes, "short", *_figures(spans), load()))
            spans = await _spans(noop, given.rested, _LONG)
            rows.append((name, "holdfast", processes, "long", *_figures(spans), load()))
    return rows


def _figures(spans: list[float]) -> tuple[int, float, float]:
    return len(spans), spans[len(spans) // 2], spans[int(len(spans) * 0.99)]


def _peers(samples: int) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    with makers("postgres") as made:
        for title, requirements, setting in _PEERS:
            name = title.split(",")[0].lower()
            arguments = ("latency", made["postgres"](), str(samples), *setting)
            found = peer(name, requirements, f"{name}_queue.py", *arguments)[0]
            rows.append(("postgres", title, "one", "long", samples, found["p50"], found["p99"], load()))
    return rows


def main() -> None:
    options = Options(__doc__, databases=SQL, peers=True)
    options.number("samples", 300, "calls with a short pause between them")
    options.number("rested", 40, "calls with a long pause between them, and of each peer")
    given = options.parse_args()
    rows: list[tuple[object, ...]] = []
    with databases(*given.databases) as urls:
        for name, url in urls.items():
            for elsewhere in (False, True):
                rows += asyncio.run(_measure(name, url, given, elsewhere=elsewhere))
    if "postgres" in given.databases and not given.no_peers:
        rows += _peers(given.rested)
    columns = ["database", "system", "processes", "pause", "calls", "p50 ms", "p99 ms", "load"]
    print_table("Idle queue, enqueue to start", columns, rows)


if __name__ == "__main__":
    main()
