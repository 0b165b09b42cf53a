"""Threads that speak to PostgreSQL themselves, each on a loop of its own: whatever happens, nothing is left behind."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.db import ConnectionManager
from holdfast.db.blocking.verbs import ThreadVerbs
from holdfast.db.queries.queries import Query
from holdfast.db.queries.text import Statement
from holdfast.db.session import run_sync
from holdfast.errors import Conflict, NotInitialized, QueryFailed, Retryable, Unavailable, UnknownCommit
from holdfast.testing.contract.venue import until
from holdfast.testing.proxy import Cut, Proxy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.db import Transaction
    from holdfast.db.blocking.sessions import ThreadSession, ThreadSessions
    from holdfast.db.manager import TransactionBlock

ADD = "INSERT INTO notes VALUES (?)"
PID = "SELECT pg_backend_pid() AS id"
KILL = "SELECT pg_terminate_backend(?)"
WAITING = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
OPEN = (
    "SELECT COUNT(*) AS n FROM pg_stat_activity "
    "WHERE datname = current_database() AND state LIKE 'idle in%' AND pid <> pg_backend_pid()"
)


def _played(url: str, scene: Callable[[ConnectionManager], Awaitable[None]], **options: Any) -> None:
    async def play() -> None:
        async with ConnectionManager(url, **options) as manager:
            await manager.execute("CREATE TABLE IF NOT EXISTS notes (id INTEGER NOT NULL PRIMARY KEY)")
            await scene(manager)

    asyncio.run(play())


async def _notes(manager: ConnectionManager) -> list[int]:
    return [row["id"] for row in await manager.fetch("SELECT id FROM notes ORDER BY id")]


def in_use(sessions: ThreadSessions) -> bool:
    """Whether there are sessions, lent or kept."""
    return bool(sessions._idle or sessions._lent)


def _sessions(manager: ConnectionManager) -> ThreadSessions:
    sessions: ThreadSessions = manager.lender(to_thread=True)._for_threads  # type: ignore[union-attr]
    return sessions


def _block(manager: ConnectionManager, isolation: str | None = None) -> TransactionBlock:
    block = manager.transaction_on_thread(isolation=isolation)
    assert block is not None
    return block


def _added(manager: ConnectionManager, *numbers: int, then: str = "") -> None:
    """Add numbers in one transaction of the calling thread."""

    async def add(transaction: Transaction) -> None:
        for number in numbers:
            await transaction.execute(ADD, number)
        if then:
            await transaction.fetch(then)

    _in_transaction(manager, add)


def _in_transaction(manager: ConnectionManager, work: Callable[[Transaction], Awaitable[None]]) -> None:
    async def run() -> None:
        block = _block(manager)
        transaction = await block.begin(with_next=True)
        try:
            await work(transaction)
        except BaseException:
            await block.end(keep=False)
            raise
        await block.end(keep=True)

    run_sync(run())


def test_thread_commits_what_it_wrote_and_keeps_its_connection(fresh_database: Callable[[str], str]) -> None:
    async def scene(manager: ConnectionManager) -> None:
        seen: list[int] = []

        async def work(transaction: Transaction) -> None:
            seen.append((await transaction.fetch(PID))[0]["id"])
            assert await transaction.execute(ADD, len(seen)) == 1

        for _ in range(3):
            await asyncio.to_thread(_in_transaction, manager, work)
        assert await _notes(manager) == [1, 2, 3]
        assert len(set(seen)) == 1
        assert not _sessions(manager)._lent

    _played(fresh_database("postgres"), scene)


def test_isolation_is_the_one_that_was_asked_for(fresh_database: Callable[[str], str]) -> None:
    async def scene(manager: ConnectionManager) -> None:
        async def level() -> str:
            block = _block(manager, "SERIALIZABLE")
            transaction = await block.begin(with_next=True)
            [row] = await transaction.fetch("SHOW transaction_isolation")
            await block.end(keep=False)
            return str(row["transaction_isolation"])

        assert await asyncio.to_thread(run_sync, level()) == "serializable"

    _played(fresh_database("postgres"), scene)


@pytest.mark.parametrize("then", ["SELECT nothing FROM nowhere", "INSERT INTO notes VALUES (1) RETURNING id"])
def test_statement_that_fails_takes_its_transaction_with_it(fresh_database: Callable[[str], str], then: str) -> None:
    async def scene(manager: ConnectionManager) -> None:
        with pytest.raises((QueryFailed, Conflict)):
            await asyncio.to_thread(_added, manager, 1, then=then)
        await asyncio.to_thread(_added, manager, 2)
        assert await _notes(manager) == [2]
        assert len(_sessions(manager)._idle) == 1

    _played(fresh_database("postgres"), scene)


@pytest.mark.parametrize("moment", ["statement", "commit", "commit after"])
def test_interrupted_thread_leaves_no_transaction_open_and_no_answer_unread(
    fresh_database: Callable[[str], str], moment: str
) -> None:
    async def scene(manager: ConnectionManager) -> None:
        await asyncio.to_thread(_added, manager, 1)

        def interrupted() -> None:
            session = _sessions(manager).acquire()
            try:
                run_sync(_to_be_interrupted(session, moment))
            finally:
                run_sync(session.rollback())
                _sessions(manager).release(session)

        with pytest.raises(asyncio.CancelledError):  # asyncio's word for what a thread of its pool was ended by
            await _raised_on_thread(interrupted)
        assert not in_use(_sessions(manager))
        await asyncio.to_thread(_added, manager, 3)
        assert [number for number in await _notes(manager) if number != 2] == [1, 3]
        assert await manager.fetchone(OPEN) == {"n": 0}

    _played(fresh_database("postgres"), scene)


async def _raised_on_thread(call: Callable[[], None]) -> None:
    """Call on a thread; raise ``CancelledError`` if it was interrupted there."""
    raised: list[BaseException] = []

    def caught() -> None:
        try:
            call()
        except KeyboardInterrupt as error:
            raised.append(error)

    await asyncio.to_thread(caught)
    if raised:
        raise asyncio.CancelledError


async def _to_be_interrupted(session: ThreadSession, moment: str) -> None:
    """Interrupt the thread once its message is sent and before the answer is read."""
    await session.begin(with_next=True)
    await session.execute("INSERT INTO notes VALUES ($1)", (2,))
    session._loop.call_soon(_interrupt)
    if moment == "statement":
        await session.execute("SELECT pg_sleep($1)", (600,))
    elif moment == "commit":
        await session.commit()
    else:
        await session.commit_after("UPDATE notes SET id = 2 WHERE id = $1", (2,))


def _interrupt() -> None:
    raise KeyboardInterrupt


class _Interruption(BaseException):
    """What is no error of the program."""


def test_interruption_inside_of_a_callback_is_passed_on(fresh_database: Callable[[str], str]) -> None:
    async def scene(manager: ConnectionManager) -> None:
        caught: list[str] = []

        def interrupted() -> None:
            session = _sessions(manager).acquire()
            try:
                session._loop.call_soon(_stop_short)
                run_sync(session.execute("SELECT 1", ()))
            except _Interruption as error:
                caught.append(type(error).__name__)
            finally:
                _sessions(manager).release(session)

        await asyncio.to_thread(interrupted)
        assert caught == ["_Interruption"]
        assert not in_use(_sessions(manager))

    _played(fresh_database("postgres"), scene)


def _stop_short() -> None:
    raise _Interruption


def test_connection_that_ended_in_silence_is_replaced(
    fresh_database: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.db.blocking.sessions._SILENCE", 0.0)

    async def scene(manager: ConnectionManager) -> None:
        pids: list[int] = []

        async def work(transaction: Transaction) -> None:
            pids.append((await transaction.fetch(PID))[0]["id"])

        for _ in range(3):
            await asyncio.to_thread(_in_transaction, manager, work)
            await _killed(manager, pids[-1])
        assert len(set(pids)) == 3

    _played(fresh_database("postgres"), scene)


def test_connection_that_ended_before_the_commit_leaves_no_doubt(
    fresh_database: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.db.blocking.sessions._SILENCE", 0.0)

    async def scene(manager: ConnectionManager) -> None:
        async def begun() -> tuple[ThreadSession, int]:
            session = _sessions(manager).acquire()
            await session.begin(with_next=True)
            await session.execute("INSERT INTO notes VALUES (1)", ())
            return session, (await session.fetch(PID, ()))[0]["id"]

        session, pid = await asyncio.to_thread(run_sync, begun())
        await _killed(manager, pid)
        with pytest.raises(Retryable):
            await asyncio.to_thread(run_sync, session.commit_after("INSERT INTO notes VALUES ($1)", (2,)))
        _sessions(manager).release(session)
        assert await _notes(manager) == []

    _played(fresh_database("postgres"), scene)


async def _killed(manager: ConnectionManager, pid: int) -> None:
    """End a session of the server; return when its process is gone, and so all that it will ever say is said."""
    await manager.fetch(KILL, pid)
    await until(lambda: not _is_there(pid))


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def _seen(manager: ConnectionManager, sql: str, *args: Any) -> None:
    async with asyncio.timeout(60):
        while not await manager.fetch(sql, *args):  # noqa: ASYNC110 -- the server does not announce it
            await asyncio.sleep(0.001)


def test_read_of_a_thread_whose_connection_was_lost_is_made_again_on_another_one(
    fresh_database: Callable[[str], str],
) -> None:
    async def scene(manager: ConnectionManager) -> None:
        own = Query("own", "", (), None, (Statement(PID, ()),), manager.dialect)
        verbs, pids = ThreadVerbs(manager), list[int]()
        for _ in range(3):
            row = await asyncio.to_thread(run_sync, verbs.fetchone(own))
            assert row is not None
            pids.append(row["id"])
            await _killed(manager, pids[-1])
        assert len(set(pids)) == 3

    _played(fresh_database("postgres"), scene)


def test_lone_write_of_a_thread_is_there_and_a_refused_one_costs_nothing(fresh_database: Callable[[str], str]) -> None:
    async def scene(manager: ConnectionManager) -> None:
        verbs = ThreadVerbs(manager)
        for number in (1, 2):
            assert await asyncio.to_thread(run_sync, verbs.execute("INSERT INTO notes VALUES ($1)", (number,))) == 1
        with pytest.raises(Conflict):
            await asyncio.to_thread(run_sync, verbs.execute("INSERT INTO notes VALUES ($1)", (1,)))
        assert await _notes(manager) == [1, 2]
        assert len(_sessions(manager)._idle) == 1

    _played(fresh_database("postgres"), scene)


def test_large_values_go_to_the_server_and_come_back(fresh_database: Callable[[str], str]) -> None:
    async def scene(manager: ConnectionManager) -> None:
        large = "\N{SNOWMAN}word" * 700_000  # 4.9 MB

        async def echoed() -> list[int]:
            session = _sessions(manager).acquire()
            sizes = []
            for times in (1, 0, 3, 1):
                rows = await session.fetch("SELECT CAST($1 AS text) AS one FROM generate_series(1, $2)", (large, times))
                assert {row["one"] for row in rows} <= {large}
                sizes.append(len(rows))
            _sessions(manager).release(session)
            return sizes

        assert await asyncio.to_thread(run_sync, echoed()) == [1, 0, 3, 1]
        assert len(_sessions(manager)._idle) == 1

    _played(fresh_database("postgres"), scene)


@pytest.mark.parametrize("cut", list(Cut))
@pytest.mark.parametrize("way", ["commit", "commit after"])
def test_connection_cut_while_a_thread_waits_for_its_commit_is_of_unknown_outcome(
    fresh_database: Callable[[str], str], way: str, cut: Cut
) -> None:
    async def scene(manager: ConnectionManager) -> None:
        url = manager.url
        async with Proxy("127.0.0.1", url.port or 0) as proxy:
            through = url.secret_text().replace(f":{url.port}/", f":{proxy.port}/")
            async with ConnectionManager(through) as cutting:

                async def doomed(number: int) -> None:
                    session = _sessions(cutting).acquire()
                    try:
                        await session.begin(with_next=True)
                        await session.execute("INSERT INTO notes VALUES ($1)", (number,))
                        if way == "commit":
                            await session.commit()
                        else:
                            await session.commit_after("UPDATE notes SET id = $1 WHERE id = $2", (number, number))
                    finally:
                        await session.rollback()
                        _sessions(cutting).release(session)

                await asyncio.to_thread(run_sync, doomed(1))
                proxy.arm(b"COMMIT" if way == "commit" else b"20202", cut)  # the values of a last statement go as text
                with pytest.raises(UnknownCommit):
                    await asyncio.to_thread(run_sync, doomed(20202))
                assert proxy.cuts == 1
                await asyncio.to_thread(run_sync, doomed(3))
        notes = await _notes(manager)
        if cut is not Cut.DURING:
            assert notes == ([1, 3] if cut is Cut.BEFORE else [1, 3, 20202])

    _played(fresh_database("postgres"), scene)


def test_statement_out_of_time_costs_its_connection_alone(fresh_database: Callable[[str], str]) -> None:
    async def scene(manager: ConnectionManager) -> None:
        async with _other(manager, command_timeout=0.5) as hasty:
            with pytest.raises((Retryable, UnknownCommit)):
                await asyncio.to_thread(_added, hasty, 1, then="SELECT pg_sleep(600)")
            assert not in_use(_sessions(hasty))
        assert await _notes(manager) == []
        assert await manager.fetchone(OPEN) == {"n": 0}

    _played(fresh_database("postgres"), scene)


def test_more_threads_than_connections_ask_the_loop(fresh_database: Callable[[str], str]) -> None:
    async def scene(manager: ConnectionManager) -> None:
        held = [await asyncio.to_thread(_sessions(manager).acquire) for _ in range(4)]
        assert manager.transaction_on_thread() is None
        _sessions(manager).release(held.pop())
        assert manager.transaction_on_thread() is not None
        for session in held:
            _sessions(manager).release(session)

    _played(fresh_database("postgres"), scene)


def test_thread_that_lost_the_race_for_a_connection_waits_for_it(fresh_database: Callable[[str], str]) -> None:
    async def scene(manager: ConnectionManager) -> None:
        first = await asyncio.to_thread(_sessions(manager).acquire)
        waiting = asyncio.create_task(asyncio.to_thread(_sessions(manager).acquire))
        await asyncio.sleep(0)
        _sessions(manager).release(first)
        assert await waiting is first
        _sessions(manager).release(first)

    _played(fresh_database("postgres"), scene, pool_size=1)


def test_connection_that_never_comes_free_is_not_waited_for_for_ever(fresh_database: Callable[[str], str]) -> None:
    async def scene(manager: ConnectionManager) -> None:
        first = await asyncio.to_thread(_sessions(manager).acquire)
        with pytest.raises(Unavailable, match="All 1 connections for threads were busy"):
            await asyncio.to_thread(_sessions(manager).acquire)
        _sessions(manager).release(first)

    _played(fresh_database("postgres"), scene, pool_size=1, pool_timeout=0.05)


def test_session_that_a_thread_has_lost_is_not_counted_for_ever(fresh_database: Callable[[str], str]) -> None:
    async def scene(manager: ConnectionManager) -> None:
        session = await asyncio.to_thread(_sessions(manager).acquire)
        await asyncio.to_thread(session.end)
        del session
        await until(lambda: manager.serves_threads)

    _played(fresh_database("postgres"), scene, pool_size=1)


def test_thread_whose_loop_runs_may_speak_for_itself_nevertheless(fresh_database: Callable[[str], str]) -> None:
    async def scene(manager: ConnectionManager) -> None:
        async def inside() -> bool:
            _added(manager, 1)
            return asyncio.get_running_loop() is asyncio._get_running_loop()

        assert await asyncio.to_thread(asyncio.run, inside())
        assert await _notes(manager) == [1]

    _played(fresh_database("postgres"), scene)


def test_manager_that_closes_waits_for_threads_and_refuses_others(fresh_database: Callable[[str], str]) -> None:
    async def scene(manager: ConnectionManager) -> None:
        begun, go_on = threading.Event(), threading.Event()
        sessions = _sessions(manager)

        async def slow(transaction: Transaction) -> None:
            await transaction.execute(ADD, 1)
            begun.set()
            assert go_on.wait(60)

        working = asyncio.create_task(asyncio.to_thread(_in_transaction, manager, slow))
        assert await asyncio.to_thread(begun.wait, 60)
        closing = asyncio.create_task(manager.close())
        await until(lambda: sessions._is_closed)
        with pytest.raises(NotInitialized):
            sessions.acquire()
        assert not closing.done()
        go_on.set()
        await working
        await closing
        assert not in_use(sessions)
        await manager.initialize()
        assert await _notes(manager) == [1]

    _played(fresh_database("postgres"), scene)


def test_task_that_is_cancelled_between_the_last_message_and_its_answer_learns_what_came_of_it(
    fresh_database: Callable[[str], str],
) -> None:
    async def scene(manager: ConnectionManager) -> None:
        await manager.execute(ADD, 1)
        block = manager.transaction()
        transaction = await block.begin(with_next=True)
        await transaction.execute(ADD, 2)
        async with _other(manager) as holder, holder.transaction() as other:
            await other.execute("UPDATE notes SET id = 1 WHERE id = 1")
            last = asyncio.create_task(block.end_after(_query(manager), old=1, new=3))
            await _seen(manager, WAITING)
            for _ in range(3):
                last.cancel()
                await asyncio.sleep(0)
            assert not last.done()
        assert await last is True
        assert last.cancelling() == 3
        assert await _notes(manager) == [2, 3]
        assert await manager.fetchone(OPEN) == {"n": 0}

    _played(fresh_database("postgres"), scene)


def test_answer_of_a_refused_last_statement_reaches_a_cancelled_task(fresh_database: Callable[[str], str]) -> None:
    async def scene(manager: ConnectionManager) -> None:
        await manager.execute(ADD, 1)
        block = manager.transaction()
        transaction = await block.begin(with_next=True)
        await transaction.execute(ADD, 2)
        async with _other(manager) as holder, holder.transaction() as other:
            await other.execute("UPDATE notes SET id = 1 WHERE id = 1")
            last = asyncio.create_task(block.end_after(_query(manager), old=1, new=2))
            await _seen(manager, WAITING)
            last.cancel()
        with pytest.raises(Conflict):
            await last
        assert await _notes(manager) == [1]
        assert await manager.fetchone(OPEN) == {"n": 0}

    _played(fresh_database("postgres"), scene)


def _other(manager: ConnectionManager, **options: Any) -> ConnectionManager:
    return ConnectionManager(manager.url.secret_text(), **options)


def _query(manager: ConnectionManager) -> Query:
    """Return a last statement, which waits for whoever has the row."""
    statement = Statement("UPDATE notes SET id = CAST($1 AS integer) WHERE id = CAST($2 AS integer)", ("new", "old"))
    return Query("last", "", ("new", "old"), None, (statement,), manager.dialect)
