"""One object for the calls of many event loops, one after the other."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast.integrations.langgraph import HoldfastSaver
from holdfast.stores import SQLiteCheckpointBackend
from holdfast.testing.workers import until

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    Made = tuple[Callable[[], Coroutine[None, None, None]], Callable[[], None]]


def saver(file: Path) -> Made:
    made = HoldfastSaver(f"sqlite:///{file}")

    async def read() -> None:
        await made.aget_tuple({"configurable": {"thread_id": "one"}})

    return read, made.close


def backend(file: Path) -> Made:
    made = SQLiteCheckpointBackend(file)

    async def read() -> None:
        await made.aload("one")

    return read, made.close


@pytest.mark.parametrize("make", [saver, backend])
def test_what_a_closed_loop_has_left_is_let_go_of(tmp_path: Path, make: Callable[[Path], Made]) -> None:
    file = tmp_path / "kept.db"
    before = set(threading.enumerate())
    read, close = make(file)
    for _ in range(3):  # each closes a loop, and another comes
        asyncio.run(read())
    until(lambda: len(_threads(before)) == 4)  # of the last one
    close()
    until(lambda: not _threads(before))
    until(lambda: not _opened(file))


def test_a_loop_that_goes_on_keeps_its_store_while_others_end(tmp_path: Path) -> None:
    read, close = backend(tmp_path / "kept.db")
    with asyncio.Runner() as here:
        here.run(read())
        for _ in range(2):
            asyncio.run(read())
        before = set(threading.enumerate())
        here.run(read())
        assert not _threads(before)
    close()


def _threads(before: set[threading.Thread]) -> set[threading.Thread]:
    return {each for each in set(threading.enumerate()) - before if each.name.startswith("holdfast-sqlite")}


def _opened(file: Path) -> list[str]:
    links = [str(each.readlink()) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    return [link for link in links if link.startswith(str(file))]
