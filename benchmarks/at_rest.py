"""A process at rest: statements a second, CPU and memory. Promised: at most 2 a second, under 1 % CPU, under 60 MB."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from yard.databases import SQL, databases
from yard.options import Options
from yard.statements import counted
from yard.table import print_table

from holdfast import AsyncHoldfast

_PAGE = 4096


async def _rest(url: str, count: list[int], seconds: float) -> tuple[float, float, float]:
    app = AsyncHoldfast(url)

    @app.workflow
    async def nothing() -> None:
        """Be registered, so that the queue is looked at."""

    async with app:
        await nothing()
        await asyncio.sleep(5)
        sent, cpu, begun = count[0], time.process_time(), time.perf_counter()
        await asyncio.sleep(seconds)
        spent = time.perf_counter() - begun
        return (count[0] - sent) / spent, (time.process_time() - cpu) / spent, _resident()


def _resident() -> float:
    """Return the megabytes this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE / 1e6


def main() -> None:
    options = Options(__doc__, databases=SQL)
    options.seconds(30.0, "how long it is watched on each database")
    given = options.parse_args()
    count = counted()
    rows = []
    with databases(*given.databases) as urls:
        for name, url in urls.items():
            statements, cpu, resident = asyncio.run(_rest(url, count, given.seconds))
            rows.append((name, f"{statements:.2f}", f"{cpu:.2%}", f"{resident:.1f}"))
    print_table("A process at rest", ["database", "statements/s", "CPU", "MB"], rows)


if __name__ == "__main__":
    main()
