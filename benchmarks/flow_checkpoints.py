"""Flow checkpoints on every backend: milliseconds a call, beside Dynamiq's own backends and the RFC's expectations.

Ours are on the disk when a call returns; Dynamiq's files are not synced. The two take turns, and of the medians of the
rounds the best counts: whatever else runs on the machine only makes them worse.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from typing import TYPE_CHECKING, Any

from yard.databases import makers
from yard.machine import load
from yard.options import Options
from yard.peers import peer
from yard.table import print_table

from holdfast.stores import CheckpointBackend, FlowCheckpoint, NodeCheckpointState, from_url

if TYPE_CHECKING:
    import argparse
    from collections.abc import Awaitable, Callable

# What the document expects, the better end of each range, in milliseconds.
EXPECTED = {
    "file": {"save small": 5, "save 1 MB": 50, "load small": 2, "list 10": 20, "delete": 2},
    "sqlite": {"save small": 2, "save 1 MB": 20, "load small": 1, "list 10": 5, "delete": 1},
    "redis": {"save small": 1, "save 1 MB": 10, "load small": 1, "list 10": 2, "delete": 1},
    "postgres": {"save small": 3, "save 1 MB": 30, "load small": 2, "list 10": 5, "delete": 2},
}
PEER = ["dynamiq==0.69.0", "psycopg[binary]"]
_FILES = ("memory", "file")
_SERVED = ("sqlite", "postgres", "mariadb", "redis")


def made(flow: str, output: Any) -> FlowCheckpoint:
    """Return a checkpoint with one node that has made *output*."""
    state = NodeCheckpointState("n1", "T", "success", {}, output)
    return FlowCheckpoint(flow, "run", node_states={"n1": state}, completed_node_ids=["n1"])


def nested() -> dict[str, Any]:
    """Return about 1 MB of JSON in many small objects."""
    return {"rows": [{"id": n, "role": "user", "text": f"some words here {n}", "score": n * 0.5} for n in range(13500)]}


def median(call: Callable[[int], Any], calls: int) -> float:
    """Return the median milliseconds of a call."""
    spans = []
    for number in range(calls):
        begun = time.perf_counter()
        call(number)
        spans.append((time.perf_counter() - begun) * 1000)
    return statistics.median(spans)


async def amedian(call: Callable[[int], Awaitable[Any]], calls: int) -> float:
    """Return the median milliseconds of an awaited call."""
    spans = []
    for number in range(calls):
        begun = time.perf_counter()
        await call(number)
        spans.append((time.perf_counter() - begun) * 1000)
    return statistics.median(spans)


def measure(backend: CheckpointBackend, calls: int) -> dict[str, float]:
    """Return the median milliseconds of each call, from a thread; then from a task, then of 100 tasks together."""
    few = max(3, calls // 10)
    small = [made("flow", {"text": "y" * 500}) for _ in range(calls)]
    flat = [made("flat", {"text": "y" * 2**20}) for _ in range(few)]
    deep = [made("nested", nested()) for _ in range(few)]
    backend.load("warm")
    found = {
        "save small": median(lambda n: backend.save(small[n]), calls),
        "save 1 MB": median(lambda n: backend.save(flat[n]), few),
        "save 1 MB nested": median(lambda n: backend.save(deep[n]), few),
        "load small": median(lambda n: backend.load(small[n].id), calls),
        "load 1 MB nested": median(lambda n: backend.load(deep[n].id), few),
        "list 10": median(lambda _: backend.list_by_flow("flow", limit=10), few),
        "delete": median(lambda n: backend.delete(small[n].id), calls),
    }
    return {**found, **asyncio.run(measure_tasks(backend, calls))}


async def measure_tasks(backend: CheckpointBackend, calls: int) -> dict[str, float]:
    """Return the same from tasks."""
    small = [made("tasks", {"text": "y" * 500}) for _ in range(calls)]
    many = [made("many", {"text": "y" * 500}) for _ in range(calls)]
    await backend.aload("warm")
    saving = await amedian(lambda n: backend.asave(small[n]), calls)
    loading = await amedian(lambda n: backend.aload(small[n].id), calls)
    turns = asyncio.Semaphore(100)

    async def save(checkpoint: FlowCheckpoint) -> None:
        async with turns:
            await backend.asave(checkpoint)

    begun = time.perf_counter()
    await asyncio.gather(*(save(each) for each in many))
    together = (time.perf_counter() - begun) * 1000 / calls
    await backend.aclose_here()
    return {"save small, task": saving, "load small, task": loading, "save small, 100 tasks": together}


def best(rounds: list[dict[str, float]]) -> dict[str, float]:
    """Return the least of each figure."""
    return {what: min(each[what] for each in rounds) for what in (rounds[0] if rounds else ())}


def compared(name: str, url: str, theirs: str | None, given: argparse.Namespace) -> list[tuple[object, ...]]:
    """Return the rows of a table: ours at *url* in turn with Dynamiq's, if it has such a backend."""
    mine, its = [], []
    for _ in range(given.rounds):
        with from_url(url) as backend:
            mine.append(measure(backend, given.calls))
        if theirs is not None and not given.no_peers:
            its += peer("dynamiq", PEER, "dynamiq_checkpoints.py", theirs, str(given.calls))
    ours, beside = best(mine), best(its)
    rows: list[tuple[object, ...]] = []
    for label, span in ours.items():
        other, expected = beside.get(label), EXPECTED.get(name, {}).get(label)
        rows.append((label, span, other or "-", other / span if other else "-", expected or "-"))
    return rows


def main() -> None:
    """Measure, and print a table a backend."""
    options = Options(__doc__, databases=(*_FILES, *_SERVED), peers=True)
    options.number("calls", 100, "calls of each kind in a round; a tenth of them with 1 MB")
    options.number("rounds", 3, "rounds in turn with the peer")
    given = options.parse_args()
    print(f"Load: {load()}")
    served = [name for name in given.databases if name in _SERVED]
    with tempfile.TemporaryDirectory() as folder, makers(*served) as made:
        urls = {"memory": "memory://", "file": f"file://{folder}/ours"} | {name: make() for name, make in made.items()}
        theirs = {"memory": "memory", "file": f"file:{folder}/theirs", "postgres": urls.get("postgres")}
        for name in dict.fromkeys(given.databases):
            rows = compared(name, urls[name], theirs.get(name), given)
            print_table(f"{name}, ms", ["call", "ours", "Dynamiq", "times faster", "the document expects"], rows)


if __name__ == "__main__":
    main()
