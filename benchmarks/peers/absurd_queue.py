"""Tasks on Absurd; it has no call that spawns many, so ten connections spawn them.

throughput URL WORKERS RUNS CONCURRENCY | latency URL SAMPLES | worker URL CONCURRENCY
"""

import asyncio
import json
import os
import subprocess
import sys
import time

import psycopg
from absurd_sdk import AsyncAbsurd
from absurdctl import BUNDLED_SCHEMA_SQL

_CONNECTIONS = 10
mode, url = sys.argv[1], sys.argv[2]
started: asyncio.Queue[float] = asyncio.Queue()


def install() -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(BUNDLED_SCHEMA_SQL)


def application() -> AsyncAbsurd:
    app = AsyncAbsurd(url, queue_name="bench")

    @app.register_task("noop")
    async def noop(params: dict[str, int], _context: object) -> int:
        started.put_nowait(time.monotonic())
        return params["number"]

    return app


async def spawn(runs: int) -> None:
    turns = iter(range(runs))

    async def task() -> None:
        app = AsyncAbsurd(url, queue_name="bench")
        for number in turns:
            await app.spawn("noop", {"number": number}, queue="bench")
        await app.close()

    await asyncio.gather(*(task() for _ in range(_CONNECTIONS)))


def until_done(runs: int) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        query = "SELECT count(*) FROM absurd.t_bench WHERE state = 'completed'"
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
    install()
    app = application()
    await app.create_queue()
    children = start(workers, concurrency)
    begun = time.perf_counter()
    await spawn(runs)
    spawned = time.perf_counter()
    until_done(runs)
    ended = time.perf_counter()
    for child in children:
        child.kill()
        child.wait()
    await app.close()
    return {"per_second": runs / (ended - begun), "enqueued_per_second": runs / (spawned - begun)}


async def latency(samples: int) -> dict[str, float]:
    install()
    app, producer = application(), AsyncAbsurd(url, queue_name="bench")
    await app.create_queue()
    work = asyncio.create_task(app.start_worker(concurrency=20))
    await asyncio.sleep(1)
    spans = []
    for number in range(samples):
        await asyncio.sleep(2 + number * 0.618 % 1)  # falls anywhere between two polls
        begun = time.monotonic()
        await producer.spawn("noop", {"number": number}, queue="bench")
        spans.append((await started.get() - begun) * 1000)
    app.stop_worker()
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    spans.sort()
    return {"p50": spans[len(spans) // 2], "p99": spans[int(len(spans) * 0.99)]}


async def worker(concurrency: int) -> None:
    app = application()
    work = asyncio.create_task(app.start_worker(concurrency=concurrency, worker_id=f"worker-{os.getpid()}"))
    await asyncio.sleep(1)
    print("ready", flush=True)
    await work


if mode == "worker":
    asyncio.run(worker(int(sys.argv[3])))
elif mode == "throughput":
    print(json.dumps(asyncio.run(throughput(int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]))), flush=True)
else:
    print(json.dumps(asyncio.run(latency(int(sys.argv[3])))), flush=True)
