"""Five-step workflows on DBOS as its documentation shows them. Arguments: URL, mode, at once, runs."""

import asyncio
import json
import logging
import sys
import threading
import time

from dbos import DBOS

url, mode, at_once, runs = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
DBOS(config={"name": "bench", "system_database_url": url, "log_level": "CRITICAL"})
logging.disable(logging.CRITICAL)


@DBOS.step()
def add(a: int, b: int) -> int:
    return a + b


@DBOS.step()
async def add_async(a: int, b: int) -> int:
    return a + b


@DBOS.workflow()
def five(x: int, steps: int = 5) -> int:
    for i in range(steps):
        x = add(x, i)
    return x


@DBOS.workflow()
async def five_async(x: int, steps: int = 5) -> int:
    for i in range(steps):
        x = await add_async(x, i)
    return x


async def run_async() -> float:
    turns = iter(range(runs))

    async def task() -> None:
        for number in turns:
            await five_async(number)

    begun = time.perf_counter()
    await asyncio.gather(*(task() for _ in range(at_once)))
    return runs / (time.perf_counter() - begun)


def run_threads() -> float:
    turns, lock = iter(range(runs)), threading.Lock()

    def work() -> None:
        while True:
            with lock:
                number = next(turns, None)
            if number is None:
                return
            five(number)

    threads = [threading.Thread(target=work) for _ in range(at_once)]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return runs / (time.perf_counter() - begun)


def run_latency() -> dict[str, float]:
    medians = {}
    for steps in (1, 10):
        spans = []
        for number in range(runs):
            begun = time.perf_counter()
            five(number, steps)
            spans.append(time.perf_counter() - begun)
        medians[f"ms_{steps}"] = sorted(spans)[len(spans) // 2] * 1000
    return medians


DBOS.launch()
if mode == "async":
    print(json.dumps({"per_second": asyncio.run(run_async())}), flush=True)
elif mode == "threads":
    print(json.dumps({"per_second": run_threads()}), flush=True)
else:
    print(json.dumps(run_latency()), flush=True)
DBOS.destroy()
