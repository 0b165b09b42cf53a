"""A run that ends while one of its transactions commits in another database: the commit is recorded, or rolled back."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import create_async_engine

from holdfast import AsyncHoldfast, AsyncTransaction, Holdfast, Retry
from holdfast.db import SyncConnectionManager
from holdfast.testing.contract.workflows_stage import PATIENCE
from holdfast.workflows.transactions import alchemy, conversation

if TYPE_CHECKING:
    from pathlib import Path

SOON = Retry(attempts=3, interval=0.01)


class Busy(Exception):
    pass


class Held:
    """Commits that wait: ``reached`` when one is about to be made, made once ``go`` is set."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.go = threading.Event()

    def patch_async(self, monkeypatch: pytest.MonkeyPatch) -> None:
        end = conversation.Conversation.end
        keep = alchemy.AsyncAlchemy._close

        async def held(opened: Any, *, keep: bool) -> None:
            if keep:
                await self._until_free()
            await end(opened, keep=keep)

        async def closed(home: Any, work: Any) -> None:
            await self._until_free()  # it is committed, and not recorded
            await keep(home, work)

        monkeypatch.setattr(conversation.Conversation, "end", held)
        monkeypatch.setattr(alchemy.AsyncAlchemy, "_close", closed)

    async def _until_free(self) -> None:
        self.reached.set()
        async with asyncio.timeout(PATIENCE):
            while not self.go.is_set():  # noqa: ASYNC110 -- threads wait for it, too
                await asyncio.sleep(0.001)

    async def until_reached(self) -> None:
        async with asyncio.timeout(PATIENCE):
            while not self.reached.is_set():  # noqa: ASYNC110 -- threads wait for it, too
                await asyncio.sleep(0.001)


def _booked(path: Path) -> list[str]:
    with SyncConnectionManager(f"sqlite:///{path}") as data:
        return [row["what"] for row in data.fetch("SELECT what FROM book ORDER BY what")]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A database with a table for bookings."""
    path = tmp_path / "data.sqlite"
    with SyncConnectionManager(f"sqlite:///{path}") as manager:
        manager.execute("CREATE TABLE book (what TEXT)")
    return path


@pytest.mark.parametrize("way", ["database", "engine"])
@pytest.mark.parametrize("ends", ["tried again", "for good"])
def test_commit_that_is_under_way_when_the_run_ends_is_recorded_first(
    way: str, ends: str, tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held()
    held.patch_async(monkeypatch)
    app = AsyncHoldfast(tmp_path / "runs.sqlite")
    failed: list[int] = []
    engine = create_async_engine(f"sqlite+aiosqlite:///{data}")

    if way == "database":

        @app.transaction(database=f"sqlite:///{data}")
        async def book(tx: AsyncTransaction, what: str) -> str:
            await tx.execute("INSERT INTO book VALUES (?)", what)
            return what
    else:

        @app.transaction(engine=engine)
        async def book(session: Any, what: str) -> str:
            await session.execute(text("INSERT INTO book VALUES (:what)"), {"what": what})
            return what

    @app.step
    async def flaky() -> str:
        await held.until_reached()
        if not failed:
            failed.append(1)
            raise Busy
        return "good"

    ended = asyncio.Event()

    @app.workflow(retry=SOON if ends == "tried again" else None)
    async def trip() -> list[str]:
        try:
            return list(await asyncio.gather(book("flight"), flaky()))
        finally:
            ended.set()

    async def main() -> None:
        async with app:
            handle = await trip.start()
            await asyncio.wait_for(ended.wait(), PATIENCE)
            held.go.set()
            if ends == "tried again":
                assert await handle.result(timeout=PATIENCE) == ["flight", "good"]
            else:
                with pytest.raises(Busy):
                    await handle.result(timeout=PATIENCE)
            steps = await app.list_steps(handle.workflow_id)
            assert [step.output for step in steps if step.function_name.endswith("book")] == ["flight"]
        await engine.dispose()

    asyncio.run(main())
    assert _booked(data) == ["flight"]
    assert failed == [1]


def test_transaction_that_would_commit_when_the_run_has_ended_is_rolled_back_and_stops_no_other(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held()
    held.patch_async(monkeypatch)
    app = AsyncHoldfast(tmp_path / "runs.sqlite")
    ended, returned = asyncio.Event(), asyncio.Event()
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'late.sqlite'}")

    @app.transaction(database=f"sqlite:///{data}")
    async def book(tx: AsyncTransaction, what: str) -> str:
        await tx.execute("INSERT INTO book VALUES (?)", what)
        return what

    @app.transaction(engine=engine)
    async def late(_: Any) -> None:
        try:
            await asyncio.wait_for(ended.wait(), PATIENCE)
        finally:
            returned.set()

    @app.step
    async def fail() -> None:
        await held.until_reached()
        raise Busy

    @app.workflow
    async def trip() -> None:
        try:
            await asyncio.gather(book("flight"), late(), fail())
        finally:
            ended.set()

    async def main() -> None:
        async with app:
            handle = await trip.start()
            await asyncio.wait_for(returned.wait(), PATIENCE)
            held.go.set()
            with pytest.raises(Busy):
                await handle.result(timeout=PATIENCE)
            steps = await app.list_steps(handle.workflow_id)
            assert sorted(step.function_name.rpartition(".")[2] for step in steps) == ["book", "fail"]
        await engine.dispose()

    asyncio.run(main())
    assert _booked(data) == ["flight"]


def test_commit_of_a_thread_that_is_under_way_when_the_run_ends_is_recorded_first(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held()
    close = alchemy.LentWork.close

    def closed(work: Any) -> None:
        held.reached.set()
        assert held.go.wait(PATIENCE)
        close(work)

    monkeypatch.setattr(alchemy.LentWork, "close", closed)
    app = Holdfast(tmp_path / "runs.sqlite")
    engine = create_engine(f"sqlite:///{data}")
    failed: list[int] = []
    ended = threading.Event()

    @app.transaction(engine=engine)
    def book(session: Any, what: str) -> str:
        session.execute(text("INSERT INTO book VALUES (:what)"), {"what": what})
        return what

    @app.step
    def flaky() -> str:
        if not failed:
            failed.append(1)
            raise Busy
        return "good"

    @app.workflow(retry=SOON)
    def trip() -> str:
        beside = threading.Thread(target=contextvars.copy_context().run, args=(lambda: book("flight"),))
        beside.start()
        assert held.reached.wait(PATIENCE)
        try:
            done = flaky()
        finally:
            ended.set()
        beside.join()
        return done

    with app:
        handle = trip.start()
        assert ended.wait(PATIENCE)
        held.go.set()
        assert handle.result(timeout=PATIENCE) == "good"
    engine.dispose()
    assert _booked(data) == ["flight"]
