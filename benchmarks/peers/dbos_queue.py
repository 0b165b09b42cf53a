"""Queues on DBOS as its documentation shows them; it has no call that enqueues many.

throughput URL WORKERS RUNS POLL CONCURRENCY | latency URL SAMPLES POLL | rest URL QUEUES SECONDS | worker URL
"""

import asyncio
import json
import logging
import os
import subprocess
import sys
import time

import sqlalchemy as sa
from dbos import DBOS

_ENQUEUE_AT_ONCE = 50
mode, url = sys.argv[1], sys.argv[2]


@DBOS.workflow()
async def noop(number: int) -> float:  # noqa: ARG001 -- every run has an argument, as real ones have
    return time.monotonic()


def launch(*, listens: bool = True) -> None:
    DBOS(
        config={
            "name": "bench",
            "system_database_url": url,
            "log_level": "CRITICAL",
            "application_version": "bench",
            "executor_id": f"process-{os.getpid()}",
        }
    )
    logging.disable(logging.CRITICAL)
    if not listens:
        DBOS.listen_queues([])
    DBOS.launch()


async def enqueue(runs: int) -> None:
    turns = iter(range(runs))

    async def task() -> None:
        for number in turns:
            await DBOS.enqueue_workflow_async("bench", noop, number)

    await asyncio.gather(*(task() for _ in range(_ENQUEUE_AT_ONCE)))


def until_done(runs: int) -> None:
    table = "workflow_status" if url.startswith("sqlite") else "dbos.workflow_status"
    engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"), isolation_level="AUTOCOMMIT")
    query = sa.text(f"SELECT count(*) FROM {table} WHERE status = 'SUCCESS'")
    with engine.connect() as connection:
        while connection.execute(query).scalar() < runs:
            time.sleep(0.05)
    engine.dispose()


def throughput(workers: int, runs: int, poll: float, concurrency: int | None) -> dict[str, float]:
    launch(listens=False)
    DBOS.register_queue("bench", polling_interval_sec=poll, worker_concurrency=concurrency)
    command = [sys.executable, __file__, "worker", url]
    children = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(workers)
    ]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline().strip() == "ready"
    begun = time.perf_counter()
    asyncio.run(enqueue(runs))
    enqueued = time.perf_counter()
    until_done(runs)
    ended = time.perf_counter()
    for child in children:
        child.kill()
        child.wait()
    return {"per_second": runs / (ended - begun), "enqueued_per_second": runs / (enqueued - begun)}


def latency(samples: int, poll: float) -> dict[str, float]:
    launch()
    DBOS.register_queue("bench", polling_interval_sec=poll)
    time.sleep(3)

    async def measure() -> list[float]:
        spans = []
        for number in range(samples):
            await asyncio.sleep(2 + number * 0.618 % 1)  # falls anywhere between two polls
            begun = time.monotonic()
            handle = await DBOS.enqueue_workflow_async("bench", noop, number)
            spans.append((await handle.get_result(polling_interval_sec=0.05) - begun) * 1000)
        return sorted(spans)

    spans = asyncio.run(measure())
    return {"p50": spans[len(spans) // 2], "p99": spans[int(len(spans) * 0.99)]}


def rest(queues: int, seconds: float) -> dict[str, float]:
    sent = [0]

    def count(*_: object) -> None:
        sent[0] += 1

    for event in ("before_cursor_execute", "begin", "commit"):
        sa.event.listen(sa.Engine, event, count)
    launch()
    for number in range(queues):
        DBOS.register_queue(f"queue-{number}")
    time.sleep(5)
    before, cpu, begun = sent[0], time.process_time(), time.perf_counter()
    time.sleep(seconds)
    spent = time.perf_counter() - begun
    return {"per_second": (sent[0] - before) / spent, "cpu": (time.process_time() - cpu) / spent}


def worker() -> None:
    launch()
    time.sleep(2)  # it looks for new queues once a second
    print("ready", flush=True)
    sys.stdin.read()


if mode == "worker":
    worker()
elif mode == "throughput":
    limit = None if sys.argv[6] == "none" else int(sys.argv[6])
    print(json.dumps(throughput(int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]), limit)), flush=True)
elif mode == "latency":
    print(json.dumps(latency(int(sys.argv[3]), float(sys.argv[4]))), flush=True)
else:
    print(json.dumps(rest(int(sys.argv[3]), float(sys.argv[4]))), flush=True)
DBOS.destroy()
