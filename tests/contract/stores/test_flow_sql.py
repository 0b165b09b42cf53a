"""What only databases do with flow checkpoints: tables of any name, sessions and pools of somebody else's."""

from __future__ import annotations

import asyncio
import fcntl
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from holdfast.db import ConnectionManager
from holdfast.errors import ConfigurationError, InvalidIdentifier, MisuseError, StaleCheckpoint, StorageError
from holdfast.stores import (
    CheckpointBackend,
    CheckpointStatus,
    FileCheckpointBackend,
    MySQLCheckpointBackend,
    PostgresCheckpointBackend,
    SQLiteCheckpointBackend,
    from_url,
)
from holdfast.testing.contract.store_flow_stage import checkpoint, ended

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    FreshDatabase = Callable[[str], str]

KINDS: dict[str, Any] = {
    "sqlite": SQLiteCheckpointBackend,
    "postgres": PostgresCheckpointBackend,
    "mariadb": MySQLCheckpointBackend,
}
SYNC_DRIVERS = {"sqlite": "sqlite", "postgres": "postgresql+psycopg", "mariadb": "mysql+pymysql"}


def test_a_database_in_memory_is_one_for_both_colours() -> None:
    with SQLiteCheckpointBackend(":memory:") as backend:
        made = checkpoint()
        backend.save(made)
        assert backend.load(made.id) == asyncio.run(backend.aload(made.id))
        assert backend.get_latest("flow") is not None
        assert backend.db_path == ":memory:"


def test_both_colours_see_one_file(tmp_path: Path) -> None:
    async def scene(backend: CheckpointBackend) -> None:
        made = checkpoint()
        await backend.asave(made)
        assert backend.load(made.id) == await backend.aload(made.id)
        await backend.aclose()

    asyncio.run(scene(SQLiteCheckpointBackend(tmp_path / "flows.db")))


@contextmanager
def held_up(kind: str, path: Path) -> Iterator[None]:
    """Keep every other writer of *path* waiting."""
    if kind == "file":
        with (path / ".lock").open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
    else:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield


@pytest.mark.parametrize("kind", ["file", "sqlite"])
def test_async_call_that_has_to_wait_leaves_the_loop_free(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "flows"

    async def scene() -> None:
        async with FileCheckpointBackend(path) if kind == "file" else SQLiteCheckpointBackend(path) as backend:
            await backend.asave(checkpoint())
            with held_up(kind, path):
                waiting = asyncio.create_task(backend.asave(checkpoint()))
                for _ in range(50):  # the loop goes on to here only if the call does not block it
                    await asyncio.sleep(0)
                assert not waiting.done()
            async with asyncio.timeout(60):
                await waiting
            assert len(await backend.alist_by_flow("flow")) == 2

    asyncio.run(scene())


@pytest.mark.parametrize("kind", ["file", "sqlite"])
def test_call_waits_while_another_program_writes_and_others_read_on(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "flows"
    with FileCheckpointBackend(path) if kind == "file" else SQLiteCheckpointBackend(path) as backend:
        first = backend.save(checkpoint())
        with ThreadPoolExecutor(1) as threads:
            with held_up(kind, path):
                waiting = threads.submit(backend.save, checkpoint(id="second"))
                assert all(backend.load(first) is not None for _ in range(50))
                assert not waiting.done()
            assert waiting.result(60) == "second"
        assert {each.id for each in backend.list_by_flow("flow")} == {first, "second"}


@pytest.mark.parametrize("kind", KINDS)
def test_names_that_could_end_their_quotes_are_refused(kind: str) -> None:
    url = {"sqlite": "x.db", "postgres": "postgresql://localhost/x", "mariadb": "mysql://localhost/x"}[kind]
    for name in ('a"; DROP TABLE b; --', "a b", "", "a.b.c", "ä", "x" * 200):
        with pytest.raises(InvalidIdentifier):
            KINDS[kind](url, table_name=name)


@pytest.mark.parametrize("kind", KINDS)
def test_tables_of_long_names_have_indexes_of_their_own(kind: str, fresh_database: FreshDatabase) -> None:
    url = fresh_database(kind)
    long = "t" * 59
    for name in (f"{long}_1", f"{long}_2"):
        with KINDS[kind](url, table_name=name) as backend:
            backend.save(checkpoint(id=name))
            assert [each.id for each in backend.list_by_flow("flow")] == [name]


def test_table_in_a_schema_is_made_there(fresh_database: FreshDatabase) -> None:
    url = fresh_database("postgres")
    with PostgresCheckpointBackend(url, "flows.checkpoints") as backend:
        backend.save(checkpoint())
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT count(*) FROM flows.checkpoints").fetchone() == (1,)


@pytest.mark.parametrize("kind", KINDS)
def test_many_make_the_table_at_once(kind: str, fresh_database: FreshDatabase) -> None:
    url = fresh_database(kind)

    async def scene() -> None:
        backends = [KINDS[kind](url) for _ in range(8)]
        await asyncio.gather(*(backend.asave(checkpoint(minute=n)) for n, backend in enumerate(backends)))
        assert len(await backends[0].alist_by_flow("flow")) == 8
        for backend in backends:
            await backend.aclose()

    asyncio.run(scene())


@pytest.mark.parametrize("kind", KINDS)
def test_table_has_the_documented_columns_and_indexes(kind: str, fresh_database: FreshDatabase) -> None:
    url = fresh_database(kind)
    with KINDS[kind](url) as backend:
        backend.save(ended(0, id="1"))
    engine = create_engine(url.replace(url.partition("://")[0], SYNC_DRIVERS[kind], 1), poolclass=None)
    try:
        with engine.connect() as connection:
            from sqlalchemy import inspect

            table = "holdfast_flow_checkpoints"
            columns = {column["name"] for column in inspect(connection).get_columns(table)}
            indexes = {index["name"]: index["column_names"] for index in inspect(connection).get_indexes(table)}
            rows = connection.execute(text(f"SELECT * FROM {table}")).mappings().all()
    finally:
        engine.dispose()
    data = "data_json" if kind == "sqlite" else "data"
    assert {"id", "flow_id", "run_id", "status", data, "created_at", "updated_at"} <= columns
    assert indexes[f"idx_{table}_flow_created"][:2] == ["flow_id", "created_at"]
    assert indexes[f"idx_{table}_flow_status"][:3] == ["flow_id", "status", "created_at"]
    assert indexes[f"idx_{table}_run"] == ["run_id"]
    assert (rows[0]["status"], rows[0]["created_at"]) == ("completed", "2026-03-01T12:00:00.000000+00:00")


def test_connections_that_were_cut_are_replaced(fresh_database: FreshDatabase) -> None:
    url = fresh_database("postgres")
    with PostgresCheckpointBackend(url, pool_size=2) as backend, psycopg.connect(url, autocommit=True) as aside:
        made = checkpoint()
        backend.save(made)
        for number in range(3):
            aside.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            made.metadata = {"round": number}
            backend.update(made)
            loaded = backend.load(made.id)
            assert loaded is not None
            assert loaded.metadata == {"round": number}


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_session_commits_checkpoint_and_rows_together(kind: str, fresh_database: FreshDatabase) -> None:
    url = fresh_database(kind)
    engine = create_engine(url.replace(url.partition("://")[0], SYNC_DRIVERS[kind], 1))
    made, dropped = checkpoint(id="1"), checkpoint(id="2")
    with closing_engine(engine), KINDS[kind](url) as outside:
        with Session(engine) as session:
            session.execute(text("CREATE TABLE orders (id INTEGER)"))
            backend = KINDS[kind].from_session(session)
            backend.save(made)
            session.execute(text("INSERT INTO orders VALUES (1)"))
            made.status = CheckpointStatus.COMPLETED
            backend.update(made)
            with pytest.raises(StaleCheckpoint):
                backend.save(checkpoint(id="1"))
            session.commit()
        with Session(engine) as session:
            backend = KINDS[kind].from_session(session)
            backend.save(dropped)
            assert {each.id for each in backend.list_by_flow("flow")} == {"1", "2"}
            backend.cleanup("flow", keep_count=0)
            assert [each.id for each in backend.list_by_flow("flow")] == ["2"]
            session.rollback()
        assert [each.id for each in outside.list_by_flow("flow")] == ["1"]
        assert [each.id for each in outside.list_by_flow("flow", status=CheckpointStatus.COMPLETED)] == ["1"]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_async_session_commits_or_does_not(kind: str, fresh_database: FreshDatabase) -> None:
    url = fresh_database(kind)
    driver = {"sqlite": "sqlite+aiosqlite", "postgres": "postgresql+psycopg"}[kind]
    dropped = checkpoint()

    async def scene() -> None:
        engine = create_async_engine(url.replace(url.partition("://")[0], driver, 1))
        try:
            async with AsyncSession(engine) as session:
                backend = KINDS[kind].from_session(session)
                await backend.asave(checkpoint(id="1"))
                claim = await backend.aclaim("1")
                assert claim is not None
                await backend.afollow(claim, checkpoint(id="2", minute=1))
                with pytest.raises(MisuseError, match="asave"):
                    backend.save(checkpoint())
                await session.commit()
            async with AsyncSession(engine) as session:
                backend = KINDS[kind].from_session(session)
                await backend.adelete("1")
                await backend.asave(dropped)
                assert dropped.revision == 1
        finally:
            await engine.dispose()
        assert dropped.revision == 0

    asyncio.run(scene())
    with KINDS[kind](url) as outside:
        assert [each.id for each in outside.list_by_flow("flow")] == ["2", "1"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_session_does_not_commit_may_be_saved_in_the_next_transaction(
    kind: str, fresh_database: FreshDatabase
) -> None:
    url = fresh_database(kind)
    engine = create_engine(url.replace(url.partition("://")[0], SYNC_DRIVERS[kind], 1))
    with closing_engine(engine), KINDS[kind](url) as outside:
        stored = checkpoint(id="stored")
        outside.save(stored)
        made = checkpoint(id="made", minute=1)
        with Session(engine) as session:
            KINDS[kind].from_session(session).save(made)
            KINDS[kind].from_session(session).update(stored)
            KINDS[kind].from_session(session).update(stored)
            session.rollback()
            assert (made.revision, stored.revision) == (0, 1)
            KINDS[kind].from_session(session).save(made)
        assert made.revision == 0  # closed without a commit
        with Session(engine) as session:
            backend = KINDS[kind].from_session(session)
            backend.save(made)
            backend.update(stored)
            session.commit()
            backend.update(made)
            session.rollback()
        assert (made.revision, stored.revision) == (1, 2)
        outside.update(made)
        assert [each.id for each in outside.list_by_flow("flow")] == ["made", "stored"]


def test_what_a_savepoint_gives_up_may_be_saved_again_and_what_it_keeps_is_the_transactions(
    fresh_database: FreshDatabase,
) -> None:
    url = fresh_database("postgres")
    engine = create_engine(url.replace(url.partition("://")[0], SYNC_DRIVERS["postgres"], 1))
    made = checkpoint()
    with closing_engine(engine), Session(engine) as session:
        backend = PostgresCheckpointBackend.from_session(session)
        for keep in (False, True):
            backend.save(made)
            given_up = session.begin_nested()
            backend.update(made)
            given_up.rollback()
            assert made.revision == 1
            with session.begin_nested():
                backend.update(made)
            assert made.revision == 2
            if keep:
                session.commit()
            else:
                session.rollback()
            assert made.revision == (2 if keep else 0)
        backend.update(made)


def test_session_of_mariadb_needs_the_table_and_then_works(fresh_database: FreshDatabase) -> None:
    url = fresh_database("mariadb")
    engine = create_engine(url.replace(url.partition("://")[0], SYNC_DRIVERS["mariadb"], 1))
    with closing_engine(engine):
        with Session(engine) as session, pytest.raises(StorageError, match="would commit"):
            MySQLCheckpointBackend.from_session(session).save(checkpoint())
        with MySQLCheckpointBackend(url) as backend:
            assert backend.list_by_flow("flow") == []
        with Session(engine) as session:
            MySQLCheckpointBackend.from_session(session).save(checkpoint(id="1"))
            session.commit()
        with MySQLCheckpointBackend(url) as backend:
            assert [each.id for each in backend.list_by_flow("flow")] == ["1"]


def test_session_of_another_kind_is_refused(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path}/a.db")
    with closing_engine(engine), Session(engine) as session:
        with pytest.raises(ConfigurationError, match="postgres"):
            PostgresCheckpointBackend.from_session(session).save(checkpoint())
        with pytest.raises(MisuseError, match=r"save\(\)"):
            asyncio.run(SQLiteCheckpointBackend.from_session(session).asave(checkpoint()))
    with pytest.raises(ConfigurationError, match="Session"):
        SQLiteCheckpointBackend.from_session("session")


class Pool:
    """The smallest pool there is: one connection, and who has it."""

    def __init__(self, url: str) -> None:
        self.connection = psycopg.connect(url)
        self.lent = 0

    def getconn(self) -> Any:
        if self.lent:
            raise LookupError("the pool is used up")
        self.lent += 1
        return self.connection

    def putconn(self, connection: Any) -> None:
        assert connection is self.connection
        self.lent -= 1


def test_pool_that_was_handed_in_is_used_and_stays_open(fresh_database: FreshDatabase) -> None:
    url = fresh_database("postgres")
    pool = Pool(url)
    with closing(pool.connection), PostgresCheckpointBackend(url) as outside:
        with PostgresCheckpointBackend(pool=pool) as backend:
            made = checkpoint(id="1", metadata={"sign": "100 %"})
            backend.save(made)
            assert outside.load("1") == backend.load("1")
            with pytest.raises(StaleCheckpoint):
                backend.save(checkpoint(id="1"))
            assert asyncio.run(backend.aget_latest("flow")) == outside.load("1")
            backend.save(ended(1, id="2"))
            assert backend.cleanup("flow", keep_count=1) == 1
            pool.lent = 1
            with pytest.raises(StorageError, match="no connection"):
                backend.load("2")
            pool.lent = 0
        assert not pool.connection.closed
        assert pool.connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


class Cutting(Pool):
    """A pool whose connection is cut as it commits, as often as it is told to."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.url = url
        self.cuts = 0

    def getconn(self) -> Any:
        if self.connection.closed:
            self.connection = psycopg.connect(self.url)
        super().getconn()
        return self

    def putconn(self, connection: Any) -> None:
        assert connection is self
        self.lent -= 1

    def commit(self) -> None:
        if self.cuts:
            self.cuts -= 1
            with psycopg.connect(self.url, autocommit=True) as aside:
                aside.execute("SELECT pg_terminate_backend(%s)", [self.connection.info.backend_pid])
        self.connection.commit()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection, name)


def test_what_a_pool_could_not_commit_may_be_saved_again(fresh_database: FreshDatabase) -> None:
    pool = Cutting(fresh_database("postgres"))
    backend = PostgresCheckpointBackend(pool=pool)
    made = checkpoint(id="1")
    assert backend.load("1") is None
    for revision in (0, 1):
        pool.cuts = 1
        with pytest.raises(StorageError, match="may have happened"):
            backend.save(made)
        assert made.revision == revision
        backend.save(made)
    claim = backend.claim("1")
    assert claim is not None
    after = checkpoint(id="2", minute=1)
    pool.cuts = 1
    with pytest.raises(StorageError, match="may have happened"):
        asyncio.run(backend.afollow(claim, after))
    assert after.revision == 0
    backend.follow(claim, after)
    assert [each.id for each in backend.list_by_flow("flow")] == ["2", "1"]
    pool.connection.close()


def test_database_is_said_once() -> None:
    with pytest.raises(ConfigurationError, match="once"):
        PostgresCheckpointBackend()
    with pytest.raises(ConfigurationError, match="once"):
        PostgresCheckpointBackend("postgresql://localhost/x", pool=object())
    with pytest.raises(ConfigurationError, match="mysql"):
        MySQLCheckpointBackend("sqlite:///x.db")


@pytest.mark.parametrize("kind", KINDS)
def test_url_picks_the_backend(kind: str, fresh_database: FreshDatabase) -> None:
    with from_url(fresh_database(kind), table_name="flows", max_checkpoints=5) as backend:
        assert type(backend) is KINDS[kind]
        assert backend.load(backend.save(checkpoint())) is not None


def test_server_that_is_not_there_is_a_storage_error_without_the_password() -> None:
    backend = PostgresCheckpointBackend("postgresql://me:secret@127.0.0.1:1/db")
    with pytest.raises(StorageError) as refused:
        backend.save(checkpoint())
    assert "secret" not in str(refused.value)


def test_manager_is_closed_when_its_table_cannot_be_made(fresh_database: FreshDatabase) -> None:
    url = fresh_database("postgres")

    async def scene() -> None:
        async with ConnectionManager(url) as manager:
            await manager.execute("CREATE VIEW flows AS SELECT 1 AS id")
        backend = PostgresCheckpointBackend(url, "flows")
        with pytest.raises(StorageError):
            await backend.asave(checkpoint())
        await backend.aclose()

    asyncio.run(scene())


class closing_engine:  # noqa: N801 -- reads as closing() does
    """Dispose of an engine of SQLAlchemy at the end of a block."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self._engine.dispose()
