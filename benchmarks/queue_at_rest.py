"""A process at rest with ten queues: statements a second and CPU, beside DBOS. Promised: at most 2 statements a second.

BEGIN and COMMIT count as statements, for both.
"""

from __future__ import annotations

import asyncio
import time

from yard.databases import SQL, databases
from yard.machine import load
from yard.options import Options
from yard.peers import peer
from yard.queue_app import queue_app
from yard.statements import counted
from yard.table import print_table

_QUEUES = 10
_SETTLE = 5.0


async def _rest(url: str, count: list[int], seconds: float) -> tuple[float, float]:
    app, noop = queue_app(url)
    async with app:
        for number in range(_QUEUES):
            await app.register_queue(f"queue-{number}")
        await (await noop.options(queue_name="queue-0").enqueue(0)).result()
        await asyncio.sleep(_SETTLE)
        sent, cpu, begun = count[0], time.process_time(), time.perf_counter()
        await asyncio.sleep(seconds)
        spent = time.perf_counter() - begun
        return (count[0] - sent) / spent, (time.process_time() - cpu) / spent


def main() -> None:
    options = Options(__doc__, databases=SQL, peers=True)
    options.seconds(30.0, "how long each system is watched on each database")
    given = options.parse_args()
    count = counted()
    rows: list[tuple[object, ...]] = []
    with databases(*given.databases) as urls:
        for name, url in urls.items():
            statements, cpu = asyncio.run(_rest(url, count, given.seconds))
            rows.append((name, "holdfast", f"{statements:.2f}", f"{cpu:.2%}", "-", load()))
            if name == "mariadb" or given.no_peers:
                continue
            place = f"{url}.dbos" if name == "sqlite" else url
            arguments = ("rest", place, str(_QUEUES), str(given.seconds))
            found = peer("dbos", ["dbos==3.3.0"], "dbos_queue.py", *arguments)[0]
            ratio = f"{found['per_second'] / statements:.0f}x ours" if statements else "-"
            rows.append((name, "DBOS", f"{found['per_second']:.2f}", f"{found['cpu']:.2%}", ratio, load()))
    print_table(
        f"A process at rest with {_QUEUES} queues", ["database", "system", "statements/s", "CPU", "ratio", "load"], rows
    )


if __name__ == "__main__":
    main()
