"""The turn of SQLite's writer, held for a transaction by a task or by a thread: whatever happens, it is given back."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.db import ConnectionManager
from holdfast.db.session import run_sync
from holdfast.errors import NotInitialized, QueryFailed
from holdfast.resilience.interrupting import Late, Watch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from holdfast.db.sqlite.threads import SqliteThreads

ADD = "INSERT INTO notes VALUES (?)"


def _played(path: Path, scene: Callable[[ConnectionManager, SqliteThreads], Awaitable[None]]) -> None:
    async def play() -> None:
        async with ConnectionManager(path) as manager:
            await manager.execute("CREATE TABLE notes (id INTEGER NOT NULL PRIMARY KEY)")
            writer: SqliteThreads = manager.backend().writer  # type: ignore[union-attr]
            await _until(lambda: not writer.turn.locked())  # an answer is told before the turn is given back
            await scene(manager, writer)

    asyncio.run(play())


async def _notes(manager: ConnectionManager) -> list[int]:
    return [row["id"] for row in await manager.fetch("SELECT id FROM notes ORDER BY id")]


def _added(manager: ConnectionManager, *numbers: int) -> None:
    """Add numbers in one transaction of the calling thread."""

    async def add() -> None:
        block = manager.transaction_on_thread()
        assert block is not None
        transaction = await block.begin(with_next=True)
        try:
            for number in numbers:
                await transaction.execute(ADD, number)
        except BaseException:
            await block.end(keep=False)
            raise
        await block.end(keep=True)

    run_sync(add())


def test_thread_holds_the_turn_from_its_first_statement_to_its_end(tmp_path: Path) -> None:
    async def scene(manager: ConnectionManager, writer: SqliteThreads) -> None:
        block = manager.transaction_on_thread()
        assert block is not None
        transaction = run_sync(block.begin(with_next=True))
        assert not writer.turn.locked()
        run_sync(transaction.execute(ADD, 1))
        assert writer.turn.locked()
        other = asyncio.create_task(manager.execute(ADD, 2))
        assert await _notes(manager) == []
        assert not other.done()
        run_sync(block.end(keep=True))
        await other
        assert await _notes(manager) == [1, 2]

    _played(tmp_path / "db.sqlite", scene)


def test_statement_that_fails_on_a_thread_gives_the_turn_back_and_leaves_nothing(tmp_path: Path) -> None:
    async def scene(manager: ConnectionManager, writer: SqliteThreads) -> None:
        with pytest.raises(QueryFailed):
            await asyncio.to_thread(_added, manager, 1, "no number")  # type: ignore[arg-type]
        assert not writer.turn.locked()
        await asyncio.to_thread(_added, manager, 2)
        assert await _notes(manager) == [2]

    _played(tmp_path / "db.sqlite", scene)


def test_thread_that_is_interrupted_while_it_waits_for_the_turn_does_not_keep_it(tmp_path: Path) -> None:
    async def scene(manager: ConnectionManager, writer: SqliteThreads) -> None:
        watch = Watch()

        def late() -> Any:
            with pytest.raises(Late):
                watch.run(_added, 0.01, (manager, 1), {})

        with writer.turn:
            waiting = asyncio.create_task(asyncio.to_thread(late))
            await _until(lambda: waiting.done() or (bool(watch._innermost) and not watch._running))
        await waiting
        assert not writer.turn.locked()
        await asyncio.to_thread(_added, manager, 2)
        assert await _notes(manager) == [2]

    _played(tmp_path / "db.sqlite", scene)


def test_thread_that_waits_for_the_turn_of_a_manager_that_closes_is_refused(tmp_path: Path) -> None:
    async def scene(manager: ConnectionManager, writer: SqliteThreads) -> None:
        with writer.turn:
            waiting = asyncio.create_task(asyncio.to_thread(_added, manager, 1))
            closing = asyncio.create_task(manager.close())
            await _until(lambda: writer._stopped)
        with pytest.raises(NotInitialized):
            await waiting
        await closing

    _played(tmp_path / "db.sqlite", scene)


def test_task_that_is_cancelled_during_the_last_statement_learns_what_came_of_it(tmp_path: Path) -> None:
    async def scene(manager: ConnectionManager, writer: SqliteThreads) -> None:
        session = await manager.backend().acquire()
        await session.begin(with_next=True)
        with writer.turn:
            last = asyncio.create_task(session.commit_after(ADD, (1,)))
            await asyncio.sleep(0)
            last.cancel()
            await asyncio.sleep(0)
            last.cancel()
        assert await last is True
        await manager.backend().release(session)
        assert await _notes(manager) == [1]

    _played(tmp_path / "db.sqlite", scene)


async def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.001)
