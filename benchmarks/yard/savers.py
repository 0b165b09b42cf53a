"""Calls of a LangGraph saver, the same for ours and for a peer, which makes them in an environment of its own."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from langgraph.checkpoint.base import empty_checkpoint

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

SIZES = {"1 KB": 1000, "100 KB": 100_000}
CALLS = ("put", "put_writes", "get_tuple", "list, 10")
ABOUT: Any = {"source": "loop", "step": 1, "parents": {}}
_THREADS = 10

Spans = list[tuple[float, float]]


def _at(thread: str) -> Any:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}


def _made(size: int, number: int) -> tuple[Any, dict[str, str]]:
    checkpoint: Any = empty_checkpoint()
    versions = {"state": f"{number:08}"}
    checkpoint["channel_values"] = {"state": {"text": "x" * size}}
    checkpoint["channel_versions"] = versions
    return checkpoint, versions


class _Calls:
    """What is called: *saver*, on threads of its own whose state has so many bytes, one after the other."""

    def __init__(self, saver: Any, size: int) -> None:
        self._saver = saver
        self._size = size
        self._threads = [uuid4().hex for _ in range(_THREADS)]
        self._last: Any = None
        self._number = 0

    def _next(self) -> Any:
        self._number += 1
        return _at(self._threads[self._number % _THREADS])


class SyncCalls(_Calls):
    """Calls from a thread."""

    def __init__(self, saver: Any, size: int) -> None:
        super().__init__(saver, size)
        self._calls: dict[str, Callable[[Any], Any]] = {
            "put": self._put,
            "put_writes": lambda _: saver.put_writes(self._last, [("state", "v")], f"task-{self._number}"),
            "get_tuple": saver.get_tuple,
            "list, 10": lambda at: list(saver.list(at, limit=10)),
        }

    def times(self, name: str, calls: int) -> Spans:
        """Make a call so often; return for each the milliseconds by the clock, and those of the processor."""
        spans = []
        for _ in range(calls):
            at = self._next()
            begun, spent = time.perf_counter(), time.process_time()
            self._calls[name](at)
            spans.append(((time.perf_counter() - begun) * 1000, (time.process_time() - spent) * 1000))
        return spans

    def _put(self, at: Any) -> None:
        checkpoint, versions = _made(self._size, self._number)
        self._last = self._saver.put(at, checkpoint, ABOUT, versions)


class AsyncCalls(_Calls):
    """Calls from a task."""

    def __init__(self, saver: Any, size: int) -> None:
        super().__init__(saver, size)
        self._calls: dict[str, Callable[[Any], Awaitable[Any]]] = {
            "put": self._put,
            "put_writes": lambda _: saver.aput_writes(self._last, [("state", "v")], f"task-{self._number}"),
            "get_tuple": saver.aget_tuple,
            "list, 10": self._listed,
        }

    async def times(self, name: str, calls: int) -> Spans:
        """Make a call so often; return for each the milliseconds by the clock, and those of the processor."""
        spans = []
        for _ in range(calls):
            at = self._next()
            begun, spent = time.perf_counter(), time.process_time()
            await self._calls[name](at)
            spans.append(((time.perf_counter() - begun) * 1000, (time.process_time() - spent) * 1000))
        return spans

    async def together(self, tasks: int) -> tuple[float, float]:
        """Put with many tasks at once; return the milliseconds of a put, by the clock and of the processor."""
        begun, spent = time.perf_counter(), time.process_time()
        await asyncio.gather(*(self._some_puts() for _ in range(tasks)))
        puts = tasks * 5
        return (time.perf_counter() - begun) * 1000 / puts, (time.process_time() - spent) * 1000 / puts

    async def _put(self, at: Any) -> None:
        checkpoint, versions = _made(self._size, self._number)
        self._last = await self._saver.aput(at, checkpoint, ABOUT, versions)

    async def _listed(self, at: Any) -> None:
        _ = [each async for each in self._saver.alist(at, limit=10)]

    async def _some_puts(self) -> None:
        thread = uuid4().hex
        for number in range(5):
            checkpoint, versions = _made(1000, number)
            await self._saver.aput(_at(thread), checkpoint, ABOUT, versions)


class Measured:
    """A saver of each colour, and what it is asked to do: the same words to ours and to a peer."""

    def __init__(self, sync_saver: Any, async_saver: Any) -> None:
        self._sync = {label: SyncCalls(sync_saver, size) for label, size in SIZES.items()}
        self._async = {label: AsyncCalls(async_saver, size) for label, size in SIZES.items()}

    async def do(self, colour: str, label: str, name: str, calls: int) -> Spans:
        """Make calls of a colour; those called ``together`` with 100 tasks at once."""
        if name == "together":
            return [await self._async[label].together(100)]
        if colour == "async":
            return await self._async[label].times(name, calls)
        return await asyncio.to_thread(self._sync[label].times, name, calls)
