"""A process at rest: statements a second, CPU and memory. Promised: at most 2 a second, under 1 % CPU, under 60 MB.

Memory is that of a process which loads the library and the driver of its database; this one has three drivers, the
servers and the table besides.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time

from yard.databases import SQL, databases
from yard.options import Options
from yard.statements import counted
from yard.table import print_table

from holdfast import AsyncHoldfast

_PROGRAM = """
import asyncio, sys
from pathlib import Path
from holdfast import AsyncHoldfast

app = AsyncHoldfast(sys.argv[1])

@app.workflow
async def nothing() -> None:
    pass

async def main() -> None:
    async with app:
        await nothing()
        await asyncio.sleep(5)
        print(int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6)

asyncio.run(main())
"""


async def _rest(url: str, count: list[int], seconds: float) -> tuple[float, float]:
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
        return (count[0] - sent) / spent, (time.process_time() - cpu) / spent


def _resident(url: str) -> float:
    """Return the megabytes that a process at rest holds."""
    made = subprocess.run([sys.executable, "-c", _PROGRAM, url], check=True, capture_output=True, text=True)
    return float(made.stdout)


def main() -> None:
    options = Options(__doc__, databases=SQL)
    options.seconds(30.0, "how long it is watched on each database")
    given = options.parse_args()
    count = counted()
    rows = []
    with databases(*given.databases) as urls:
        for name, url in urls.items():
            statements, cpu = asyncio.run(_rest(url, count, given.seconds))
            rows.append((name, f"{statements:.2f}", f"{cpu:.2%}", f"{_resident(url):.1f}"))
    print_table("A process at rest", ["database", "statements/s", "CPU", "MB"], rows)


if __name__ == "__main__":
    main()
