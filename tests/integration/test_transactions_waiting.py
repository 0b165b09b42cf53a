"""Transactions through SQLAlchemy whose row is held by another: they begin once it is let go, and no sooner fail."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import Engine, create_engine, event, text
from sqlalchemy.ext.asyncio import create_async_engine

from holdfast import AsyncHoldfast, Holdfast
from holdfast.errors import WorkflowCancelled

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WRITE = text("INSERT INTO book VALUES (1)")
MORE_THAN_ONE_GIVES_UP_AFTER = 12


@contextmanager
def held(path: Path, engine: Engine) -> Iterator[tuple[sqlite3.Connection, threading.Event]]:
    """Hold the writer's place of a database; the event says that *engine* was refused it often."""
    with sqlite3.connect(path, isolation_level=None) as holder:
        holder.execute("CREATE TABLE book (number INTEGER)")
    refused, often = [0], threading.Event()

    @event.listens_for(engine, "handle_error")
    def note(_: Any) -> None:
        refused[0] += 1
        if refused[0] >= MORE_THAN_ONE_GIVES_UP_AFTER:
            often.set()

    yield holder, often
    holder.close()


def test_sync_transaction_waits_for_the_writer_and_can_be_cancelled(tmp_path: Path) -> None:
    path = tmp_path / "data.sqlite"
    engine = create_engine(f"sqlite:///{path}", connect_args={"timeout": 0.001})
    app = Holdfast(f"sqlite:///{tmp_path}/runs.sqlite")

    @app.transaction(engine=engine)
    def write(session: Any) -> str:
        session.execute(WRITE)
        return "written"

    @app.workflow
    def book() -> str:
        return write()

    with app, held(path, engine) as (holder, often):
        assert book() == "written"
        holder.execute("BEGIN IMMEDIATE")
        waiting, cancelled = book.start(), book.start()
        assert often.wait(60)
        app.cancel_workflow(cancelled.workflow_id)
        with pytest.raises(WorkflowCancelled):
            cancelled.result(timeout=60)
        holder.execute("COMMIT")
        assert waiting.result(timeout=60) == "written"
        assert holder.execute("SELECT count(*) FROM book").fetchone() == (2,)
    engine.dispose()


def test_async_transaction_waits_for_the_writer(tmp_path: Path) -> None:
    path = tmp_path / "data.sqlite"
    app = AsyncHoldfast(f"sqlite:///{tmp_path}/runs.sqlite")

    async def main() -> None:
        engine = create_async_engine(f"sqlite+aiosqlite:///{path}", connect_args={"timeout": 0.001})

        @app.transaction(engine=engine)
        async def write(session: Any) -> str:
            await session.execute(WRITE)
            return "written"

        @app.workflow
        async def book() -> str:
            return await write()

        async with app:
            with held(path, engine.sync_engine) as (holder, often):
                assert await book() == "written"
                holder.execute("BEGIN IMMEDIATE")
                waiting = await book.start()
                assert await asyncio.to_thread(often.wait, 60)
                holder.execute("COMMIT")
                assert await waiting.result(timeout=60) == "written"
                assert holder.execute("SELECT count(*) FROM book").fetchone() == (2,)
        await engine.dispose()

    asyncio.run(main())
