"""A thousand interrupted runs: from their release to the last result. Promised: under 2 s.

A child process starts the runs, records one step of each, and is killed in the second. Its row in the table of
executors is then removed, as an observer would remove it after a lease; the clock starts with the release.

Run with ``child URL TAG RUNS`` it is that child.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time

from yard.databases import SQL, databases
from yard.options import Options
from yard.table import print_table

from holdfast import AsyncHoldfast
from holdfast.db import ConnectionManager
from holdfast.workflows.ownership.release import Releases


def _app(url: str, *, blocks: bool) -> tuple[AsyncHoldfast, object]:
    app = AsyncHoldfast(url, application_version="bench", lease=60)

    @app.step
    async def first(number: int) -> int:
        return number

    @app.step
    async def second(number: int) -> int:
        if blocks:
            await asyncio.Event().wait()
        return number

    @app.workflow
    async def interrupted(number: int) -> int:
        return await second(await first(number))

    return app, interrupted


async def _child(url: str, tag: str, runs: int) -> None:
    """Start the runs, say so once all have recorded their first step, and wait to be killed."""
    app, interrupted = _app(url, blocks=True)
    async with app:
        await asyncio.gather(
            *(interrupted.options(workflow_id=f"{tag}-{n}").start(n) for n in range(runs))  # type: ignore[attr-defined]
        )
        async with ConnectionManager(url) as manager:
            table = "holdfast.operation_outputs" if manager.dialect == "postgres" else "operation_outputs"
            recorded = 0
            while recorded < runs:
                found = await manager.fetchone(
                    f"SELECT count(*) AS n FROM {table} WHERE workflow_uuid LIKE ?", f"{tag}-%"
                )
                recorded = found["n"] if found else 0
        print("ready", flush=True)
        await asyncio.Event().wait()


async def _recover(url: str, tag: str, runs: int) -> float:
    child = await asyncio.create_subprocess_exec(
        sys.executable, __file__, "child", url, tag, str(runs), stdout=asyncio.subprocess.PIPE
    )
    assert child.stdout is not None
    assert (await child.stdout.readline()).strip() == b"ready"
    child.kill()
    await child.wait()
    app, _ = _app(url, blocks=False)
    async with app:
        engine = app._engine  # noqa: SLF001 -- the benchmark plays the observer that has seen a lease go by
        executors = await engine.manager.fetch(engine.queries["executors_list"])
        (gone,) = [row["incarnation"] for row in executors if row["incarnation"] != engine.executor.incarnation]
        await engine.manager.execute(engine.queries["executor_leave"], incarnation=gone)
        begun = time.perf_counter()
        await Releases(engine.manager, engine.queries).release(gone, lambda: False)
        engine.work_released()
        results = await asyncio.gather(*(app.retrieve_workflow(f"{tag}-{n}").result() for n in range(runs)))
        assert results == list(range(runs))
        return time.perf_counter() - begun


def main() -> None:
    options = Options(__doc__, databases=SQL)
    options.number("runs", 1_000, "runs that are interrupted")
    options.number("rounds", 3, "how often, on each database")
    given = options.parse_args()
    rows = []
    with databases(*given.databases) as urls:
        for name, url in urls.items():
            spans = [asyncio.run(_recover(url, f"{name}{turn}", given.runs)) for turn in range(given.rounds)]
            rows.append((name, given.runs, f"{statistics.median(spans):.2f}", f"{max(spans):.2f}"))
    print_table("Recovery of interrupted runs, seconds", ["database", "runs", "median", "slowest"], rows)


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        asyncio.run(_child(sys.argv[2], sys.argv[3], int(sys.argv[4])))
    else:
        main()
