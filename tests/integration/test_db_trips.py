"""A lent session: BEGIN with the first statement, COMMIT with the last, in one trip where the driver can."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.db import ConnectionManager, DialectName
from holdfast.db.postgres.trips import _Ahead
from holdfast.db.session import native
from holdfast.errors import Conflict, QueryFailed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from holdfast.db.session import LentSession

KINDS = ["sqlite", "postgres", "mariadb"]
ADD = "INSERT INTO notes VALUES (?, ?)"


def _played(url: str, scene: Callable[[ConnectionManager], Awaitable[None]]) -> None:
    async def play() -> None:
        async with ConnectionManager(url, pool_size=1) as manager:
            await manager.execute("CREATE TABLE notes (id INTEGER NOT NULL PRIMARY KEY, note VARCHAR(40) NOT NULL)")
            await scene(manager)

    asyncio.run(play())


@asynccontextmanager
async def _lent(manager: ConnectionManager) -> AsyncIterator[LentSession]:
    session = await manager.backend().acquire()
    try:
        yield session
    finally:
        await manager.backend().release(session)


async def _notes(manager: ConnectionManager) -> dict[int, str]:
    return {row["id"]: row["note"] for row in await manager.fetch("SELECT id, note FROM notes")}


async def _run(manager: ConnectionManager, session: LentSession, sql: str, *args: Any) -> int:
    return await session.execute(native(sql, manager.dialect, args), args)


async def _end(manager: ConnectionManager, session: LentSession, sql: str, *args: Any) -> bool:
    try:
        return await session.commit_after(native(sql, manager.dialect, args), args)
    finally:
        await session.rollback()


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_between_the_first_and_the_last_statement_is_one_transaction(
    fresh_database: Callable[[str], str], kind: str
) -> None:
    async def scene(manager: ConnectionManager) -> None:
        for turn in range(3):  # the first prepares its statements, the others do not
            async with _lent(manager) as session:
                await session.begin("SERIALIZABLE" if turn == 2 else None, with_next=True)
                assert session.in_transaction
                assert await _run(manager, session, ADD, 10 * turn, "first") == 1
                assert (
                    await _run(manager, session, "UPDATE notes SET note = ? WHERE id < ?", "all", 100) == turn * 2 + 1
                )
                assert session.in_transaction
                assert await _end(manager, session, ADD, 10 * turn + 1, "it's the last \\ \N{SNOWMAN}")
                assert not session.in_transaction
        assert await _notes(manager) == {
            0: "all", 1: "all", 10: "all", 11: "all", 20: "all", 21: "it's the last \\ \N{SNOWMAN}",
        }  # fmt: skip

    _played(fresh_database(kind), scene)


@pytest.mark.parametrize("kind", KINDS)
def test_last_statement_that_is_refused_takes_all_with_it(fresh_database: Callable[[str], str], kind: str) -> None:
    async def scene(manager: ConnectionManager) -> None:
        await manager.execute(ADD, 1, "there")
        for last, error in (
            (ADD, Conflict),
            ("INSERT INTO notes VALUES (?, (SELECT ? FROM notes WHERE 1 = 0))", QueryFailed),
        ):
            for _ in range(2):
                async with _lent(manager) as session:
                    await session.begin(with_next=True)
                    await _run(manager, session, ADD, 2, "lost")
                    with pytest.raises(error):
                        await _end(manager, session, last, 1, "again")
                    assert session.usable
        assert await _notes(manager) == {1: "there"}

    _played(fresh_database(kind), scene)


@pytest.mark.parametrize("kind", ["sqlite", "mariadb"])
def test_last_statement_that_touches_nothing_takes_all_with_it(fresh_database: Callable[[str], str], kind: str) -> None:
    async def scene(manager: ConnectionManager) -> None:
        async with _lent(manager) as session:
            await session.begin(with_next=True)
            await _run(manager, session, ADD, 2, "lost")
            assert not await _end(manager, session, "UPDATE notes SET note = ? WHERE id = ?", "x", 77)
        assert await _notes(manager) == {}

    _played(fresh_database(kind), scene)


@pytest.mark.parametrize("kind", KINDS)
def test_transaction_without_a_statement_needs_none(fresh_database: Callable[[str], str], kind: str) -> None:
    async def scene(manager: ConnectionManager) -> None:
        async with _lent(manager) as session:
            await session.begin(with_next=True)
            await session.rollback()
            await session.begin(with_next=True)
            await session.commit()
            await session.begin(with_next=True)
            assert await _end(manager, session, ADD, 1, "alone")
            assert not session.in_transaction
        assert await _notes(manager) == {1: "alone"}

    _played(fresh_database(kind), scene)


def test_value_that_the_driver_refuses_costs_postgres_a_connection_and_nothing_else(
    fresh_database: Callable[[str], str],
) -> None:
    async def scene(manager: ConnectionManager) -> None:
        assert manager.dialect is DialectName.POSTGRES
        for turn in range(3):
            async with _lent(manager) as session:
                await session.begin(with_next=True)
                with pytest.raises(QueryFailed):
                    await _run(manager, session, ADD, "no number", "x")
                await session.rollback()
            async with _lent(manager) as session:
                await session.begin(with_next=True)
                await _run(manager, session, ADD, turn, "kept")
                await session.commit()
        assert await _notes(manager) == dict.fromkeys(range(3), "kept")

    _played(fresh_database("postgres"), scene)


def test_type_that_has_changed_under_a_statement_of_postgres_is_read_as_it_is_now(
    fresh_database: Callable[[str], str],
) -> None:
    async def scene(manager: ConnectionManager) -> None:
        await manager.execute("CREATE TYPE crate AS (wide INTEGER, high INTEGER)")
        await manager.execute("CREATE TABLE boxes (id INTEGER NOT NULL PRIMARY KEY, box crate NOT NULL)")
        await manager.execute("INSERT INTO boxes VALUES (1, ROW(2, 3))")

        async def boxes() -> list[dict[str, int]]:
            sql = "SELECT box FROM boxes WHERE id = ?"
            return [dict(row["box"]) for row in await manager.run(lambda transaction: transaction.fetch(sql, 1))]

        for _ in range(2):  # the second time it is prepared
            assert await boxes() == [{"wide": 2, "high": 3}]
        await manager.execute("ALTER TYPE crate DROP ATTRIBUTE high")
        for _ in range(2):
            assert await boxes() == [{"wide": 2}]

    _played(fresh_database("postgres"), scene)


def test_postgres_is_sent_two_packets_for_a_transaction_and_two_for_a_run_of_one_statement(
    fresh_database: Callable[[str], str],
) -> None:
    async def scene(manager: ConnectionManager) -> None:
        packets = 0

        async def by_hand(number: int) -> None:
            async with _lent(manager) as session:
                await session.begin(with_next=True)
                await _run(manager, session, ADD, number, "first")
                await session.commit_after(native(ADD, manager.dialect, (0, "")), (number + 1, "last"))

        async def by_run(number: int) -> None:
            await manager.run(lambda transaction: transaction.execute(ADD, number, "run"))

        for number in (0, 2):
            await by_hand(number)
            await by_run(number + 100)
        async with _lent(manager) as session:
            ahead: Any = session._trips._ahead  # type: ignore[attr-defined]
        write = ahead._write

        def counted(data: bytes) -> None:
            nonlocal packets
            packets += 1
            write(data)

        ahead._write = counted
        await by_hand(4)
        assert packets == 2
        await by_run(104)
        assert packets == 4
        assert sorted(await _notes(manager)) == [0, 1, 2, 3, 4, 5, 100, 102, 104]

    _played(fresh_database("postgres"), scene)


def test_transport_that_cannot_be_told_sends_what_goes_ahead_at_once() -> None:
    class Foreign:
        __slots__ = ("sent",)

        def __init__(self) -> None:
            self.sent: list[bytes] = []

        def write(self, data: bytes) -> None:
            self.sent.append(data)

    transport = Foreign()
    _Ahead(transport).send(b"BEGIN")
    transport.write(b"UPDATE")
    assert transport.sent == [b"BEGIN", b"UPDATE"]
