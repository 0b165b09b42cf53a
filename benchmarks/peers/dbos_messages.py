"""Messages and events on DBOS, as its documentation shows them: URL SAMPLES."""

import asyncio
import json
import logging
import sys
import time

from dbos import DBOS

url, samples = sys.argv[1], int(sys.argv[2])
received: asyncio.Queue[float] = asyncio.Queue()


@DBOS.workflow()
async def receiver(messages: int) -> None:
    for _ in range(messages):
        await DBOS.recv_async("t", timeout_seconds=60)
        received.put_nowait(time.perf_counter())


@DBOS.workflow()
async def setter(events: int) -> None:
    for number in range(events):
        await DBOS.recv_async("go", timeout_seconds=60)
        received.put_nowait(time.perf_counter())
        await DBOS.set_event_async(f"k{number}", number)


def said(what: str, spans: list[float]) -> None:
    spans.sort()
    print(json.dumps({"what": what, "p50": spans[len(spans) // 2], "p99": spans[int(len(spans) * 0.99)]}))


async def main() -> None:
    run = await DBOS.start_workflow_async(receiver, samples)
    spans = []
    for number in range(samples):
        await asyncio.sleep(0.05)
        begun = time.perf_counter()
        await DBOS.send_async(run.workflow_id, number, "t")
        spans.append((await received.get() - begun) * 1000)
    await run.get_result()
    said("send to recv", spans)
    run = await DBOS.start_workflow_async(setter, samples)
    spans = []
    for number in range(samples):
        waiting = asyncio.create_task(DBOS.get_event_async(run.workflow_id, f"k{number}", timeout_seconds=60))
        await asyncio.sleep(0.05)
        await DBOS.send_async(run.workflow_id, number, "go")
        await waiting
        ended = time.perf_counter()
        spans.append((ended - await received.get()) * 1000)
    await run.get_result()
    said("set to get", spans)


DBOS(config={"name": "bench", "system_database_url": url, "log_level": "CRITICAL", "application_version": "bench"})
logging.disable(logging.CRITICAL)
DBOS.launch()
asyncio.run(main())
DBOS.destroy()
