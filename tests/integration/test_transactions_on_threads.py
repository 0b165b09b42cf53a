"""Transactions of sync functions on PostgreSQL, whose threads speak to the server themselves."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import Holdfast, Transaction
from holdfast.db import ConnectionManager
from holdfast.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.db.blocking.sessions import ThreadSessions

PATIENCE = 60


async def _counters(url: str, counters: int) -> None:
    async with ConnectionManager(url) as manager:
        await manager.execute("CREATE TABLE counters (id INTEGER NOT NULL PRIMARY KEY, n INTEGER NOT NULL)")
        for number in range(counters):
            await manager.execute("INSERT INTO counters VALUES (?, 0)", number)


async def _counted(url: str) -> list[int]:
    async with ConnectionManager(url) as manager:
        return [row["n"] for row in await manager.fetch("SELECT n FROM counters ORDER BY id")]


def in_use(sessions: ThreadSessions) -> bool:
    """Whether there are sessions, lent or kept."""
    return bool(sessions._idle or sessions._lent)


def _sessions(app: Holdfast) -> ThreadSessions:
    sessions: ThreadSessions = app._engine.manager._backend._for_threads  # type: ignore[union-attr]
    return sessions


def _app(url: str) -> tuple[Holdfast, Callable[[int, int], None]]:
    app = Holdfast(url)

    @app.transaction
    def count(tx: Transaction, number: int) -> int:
        return tx.execute("UPDATE counters SET n = n + 1 WHERE id = ?", number)

    @app.workflow
    def counting(number: int, times: int) -> None:
        for _ in range(times):
            count(number)

    return app, counting


def test_more_threads_than_have_connections_count_once_each(fresh_database: Callable[[str], str]) -> None:
    url = fresh_database("postgres")
    asyncio.run(_counters(url, 8))
    app, counting = _app(url)
    with app, ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(counting, number, 20) for number in range(8)]:
            done.result(PATIENCE)
        assert len(_sessions(app)._idle) in range(1, 5)
        assert not _sessions(app)._lent
    assert asyncio.run(_counted(url)) == [20] * 8


def test_transaction_in_a_workflow_waits_for_as_long_as_the_server_is_away(
    fresh_database: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = fresh_database("postgres")
    asyncio.run(_counters(url, 1))
    app, counting = _app(url)
    monkeypatch.setattr("holdfast.workflows.transactions.own.backoff", lambda *_, **__: 0.0)
    tries = 0
    with app:
        connect = _sessions(app)._connect

        async def away() -> Any:
            nonlocal tries
            tries += 1
            if tries <= 30:
                raise Unavailable("The server is away.")
            return await connect()

        _sessions(app)._connect = away
        counting(0, 1)
        assert tries == 31
    assert asyncio.run(_counted(url)) == [1]


def test_interrupted_function_leaves_nothing_and_its_workflow_is_told(fresh_database: Callable[[str], str]) -> None:
    url = fresh_database("postgres")
    asyncio.run(_counters(url, 1))
    app = Holdfast(url)
    moment = threading.Event()

    @app.transaction
    def count(tx: Transaction) -> int:
        tx.execute("UPDATE counters SET n = n + 1 WHERE id = 0")
        if not moment.is_set():
            moment.set()
            [session] = _sessions(app)._lent
            session._loop.call_soon(_interrupt)
        return tx.execute("UPDATE counters SET n = n + 1 WHERE id = 0")

    with app:
        with pytest.raises(KeyboardInterrupt):
            count()
        assert not in_use(_sessions(app))
        assert count() == 1
    assert asyncio.run(_counted(url)) == [2]


def _interrupt() -> None:
    raise KeyboardInterrupt
