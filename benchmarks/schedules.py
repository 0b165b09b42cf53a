"""Schedules: a process at rest with ten queues and a hundred of them, and how late a due slot starts.

Promised: at most 2 statements a second at rest, BEGIN and COMMIT counted; and a due slot of an idle process starts
within 50 ms. A slot's start is the first line of its workflow, by the clock of the machine, which the database shares.
"""

from __future__ import annotations

import asyncio
import time
from datetime import datetime  # noqa: TC003 -- the workflow is given one, by its annotation

from yard.databases import SQL, databases
from yard.machine import load
from yard.options import Options
from yard.statements import counted
from yard.table import print_table

from holdfast import AsyncHoldfast

_QUEUES = 10
_SCHEDULES = 100
_SETTLE = 5.0
_EVERY = 3  # seconds between slots: longer than a process at rest waits between two looks


async def _rest(url: str, count: list[int], seconds: float) -> tuple[float, float]:
    app = AsyncHoldfast(url, application_version="rest")

    @app.workflow
    async def noop() -> None: ...

    async with app:
        for number in range(_QUEUES):
            await app.register_queue(f"queue-{number}")
        for number in range(_SCHEDULES):
            await app.create_schedule(f"schedule-{number}", noop, f"{number % 60} 3 1 1 *")
        await asyncio.sleep(_SETTLE)
        sent, cpu, begun = count[0], time.process_time(), time.perf_counter()
        await asyncio.sleep(seconds)
        spent = time.perf_counter() - begun
        found = (count[0] - sent) / spent, (time.process_time() - cpu) / spent
        await app.apply_schedules([])
        return found


async def _late(url: str, slots: int) -> list[float]:
    """Return by how many milliseconds slots of an idle process started late."""
    app = AsyncHoldfast(url, application_version="late")
    late: list[float] = []

    @app.workflow
    async def slot(scheduled_at: datetime) -> None:
        late.append((time.time() - scheduled_at.timestamp()) * 1000)

    async with app:
        await app.set_latest_application_version("late")
        await app.create_schedule("late", slot, f"*/{_EVERY} * * * * *")
        while len(late) < slots:  # noqa: ASYNC110 -- a measurement, at rest
            await asyncio.sleep(0.5)
        await app.delete_schedule("late")
    return sorted(late[:slots])


def main() -> None:
    options = Options(__doc__, databases=SQL)
    options.seconds(30.0, "how long it is watched at rest on each database")
    options.number("slots", 20, f"slots that come, one every {_EVERY} s")
    given = options.parse_args()
    count = counted()
    rows: list[tuple[object, ...]] = []
    with databases(*given.databases) as urls:
        for name, url in urls.items():
            statements, cpu = asyncio.run(_rest(url, count, given.seconds))
            late = asyncio.run(_late(url, given.slots))
            figures = f"{late[len(late) // 2]:.1f}", f"{late[-1]:.1f}"
            rows.append((name, f"{statements:.2f}", f"{cpu:.2%}", *figures, load()))
    columns = ["database", "statements/s at rest", "CPU at rest", "slot late, p50 ms", "slot late, worst ms", "load"]
    print_table(f"{_QUEUES} queues, {_SCHEDULES} schedules", columns, rows)


if __name__ == "__main__":
    main()
