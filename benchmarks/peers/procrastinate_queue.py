"""Jobs on Procrastinate, deferred a thousand in a call, worked with LISTEN and NOTIFY.

throughput URL WORKERS RUNS CONCURRENCY | latency URL SAMPLES | worker URL CONCURRENCY
"""

import asyncio
import json
import logging
import subprocess
import sys
import time

import procrastinate
import psycopg

_AT_ONCE = 1000
logging.disable(logging.CRITICAL)
mode, url = sys.argv[1], sys.argv[2]
started: asyncio.Queue[float] = asyncio.Queue()
app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url, min_size=4, max_size=20))


@app.task(queue="bench", name="noop")
async def noop(number: int) -> int:
    started.put_nowait(time.monotonic())
    return number


def until_done(runs: int) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        query = "SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'"
        while connection.execute(query).fetchone()[0] < runs:
            time.sleep(0.05)


def start(workers: int, concurrency: str) -> list[subprocess.Popen[str]]:
    command = [sys.executable, __file__, "worker", url, concurrency]
    children = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(workers)
    ]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline().strip() == "ready"
    return children


async def throughput(workers: int, runs: int, concurrency: str) -> dict[str, float]:
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        children = start(workers, concurrency)
        begun = time.perf_counter()
        for first in range(0, runs, _AT_ONCE):
            await noop.batch_defer_async(*({"number": n} for n in range(first, min(runs, first + _AT_ONCE))))
        deferred = time.perf_counter()
        until_done(runs)
        ended = time.perf_counter()
    for child in children:
        child.kill()
        child.wait()
    return {"per_second": runs / (ended - begun), "enqueued_per_second": runs / (deferred - begun)}


async def latency(samples: int) -> dict[str, float]:
    spans = []
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        work = asyncio.create_task(app.run_worker_async(concurrency=20, install_signal_handlers=False))
        await asyncio.sleep(1)
        for number in range(samples):
            await asyncio.sleep(2 + number * 0.618 % 1)  # falls anywhere between two polls
            begun = time.monotonic()
            await noop.defer_async(number=number)
            spans.append((await started.get() - begun) * 1000)
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
    spans.sort()
    return {"p50": spans[len(spans) // 2], "p99": spans[int(len(spans) * 0.99)]}


async def worker(concurrency: int) -> None:
    async with app.open_async():
        work = asyncio.create_task(app.run_worker_async(concurrency=concurrency, install_signal_handlers=False))
        await asyncio.sleep(1)
        print("ready", flush=True)
        await work


if mode == "worker":
    asyncio.run(worker(int(sys.argv[3])))
elif mode == "throughput":
    print(json.dumps(asyncio.run(throughput(int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]))), flush=True)
else:
    print(json.dumps(asyncio.run(latency(int(sys.argv[3])))), flush=True)
