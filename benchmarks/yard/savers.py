"""Measures of a LangGraph saver, the same for ours and for a peer, which runs them in an environment of its own."""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import Any
from uuid import uuid4

from langgraph.checkpoint.base import empty_checkpoint

SIZES = {"1 KB": 1000, "100 KB": 100_000}
ABOUT: Any = {"source": "loop", "step": 1, "parents": {}}
_THREADS = 10
_WARM = 20


def _at(thread: str) -> Any:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}


def _made(size: int, number: int) -> tuple[Any, dict[str, str]]:
    checkpoint: Any = empty_checkpoint()
    versions = {"state": f"{number:08}"}
    checkpoint["channel_values"] = {"state": {"text": "x" * size}}
    checkpoint["channel_versions"] = versions
    return checkpoint, versions


def measure_sync(saver: Any, calls: int) -> dict[str, float]:
    """Return the median milliseconds of each call from a thread."""
    found: dict[str, float] = {}
    for label, size in SIZES.items():
        threads = [uuid4().hex for _ in range(_THREADS)]
        last: list[Any] = []

        def put(number: int, threads: list[str] = threads, size: int = size, last: list[Any] = last) -> None:
            checkpoint, versions = _made(size, number)
            last[:] = [saver.put(_at(threads[number % _THREADS]), checkpoint, ABOUT, versions)]

        steps: dict[str, Any] = {
            "put": put,
            "put_writes": lambda number, last=last: saver.put_writes(last[0], [("state", "v")], f"task-{number}"),
            "get_tuple": lambda number, threads=threads: saver.get_tuple(_at(threads[number % _THREADS])),
            "list, 10": lambda number, threads=threads: list(saver.list(_at(threads[number % _THREADS]), limit=10)),
        }
        for name, call in steps.items():
            spans = []
            for number in range(calls + _WARM):
                begun = time.perf_counter()
                call(number)
                spans.append((time.perf_counter() - begun) * 1000)
            found[f"{name} {label}, sync"] = statistics.median(spans[_WARM:])
    return found


async def measure_async(saver: Any, calls: int) -> dict[str, float]:
    """Return the median milliseconds of each call on a loop, and of a put among 100 tasks."""
    found: dict[str, float] = {}
    for label, size in SIZES.items():
        threads = [uuid4().hex for _ in range(_THREADS)]
        last: list[Any] = []

        async def put(number: int, threads: list[str] = threads, size: int = size, last: list[Any] = last) -> None:
            checkpoint, versions = _made(size, number)
            last[:] = [await saver.aput(_at(threads[number % _THREADS]), checkpoint, ABOUT, versions)]

        async def listed(number: int, threads: list[str] = threads) -> None:
            _ = [each async for each in saver.alist(_at(threads[number % _THREADS]), limit=10)]

        steps: dict[str, Any] = {
            "put": put,
            "put_writes": lambda number, last=last: saver.aput_writes(last[0], [("state", "v")], f"task-{number}"),
            "get_tuple": lambda number, threads=threads: saver.aget_tuple(_at(threads[number % _THREADS])),
            "list, 10": listed,
        }
        for name, call in steps.items():
            spans = []
            for number in range(calls + _WARM):
                begun = time.perf_counter()
                await call(number)
                spans.append((time.perf_counter() - begun) * 1000)
            found[f"{name} {label}, async"] = statistics.median(spans[_WARM:])
    begun = time.perf_counter()
    await asyncio.gather(*(_some_puts(saver) for _ in range(100)))
    found["put 1 KB, 100 tasks"] = (time.perf_counter() - begun) * 1000 / 500
    return found


async def _some_puts(saver: Any) -> None:
    thread = uuid4().hex
    for number in range(5):
        checkpoint, versions = _made(1000, number)
        await saver.aput(_at(thread), checkpoint, ABOUT, versions)
