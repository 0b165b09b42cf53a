"""Runs that are enqueued in a transaction of SQLAlchemy, on real servers and in both colours."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import URL, create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from holdfast import AsyncHoldfast, Holdfast, Transaction
from holdfast.db import DatabaseURL, SyncConnectionManager
from holdfast.errors import Deduplicated, MisuseError

if TYPE_CHECKING:
    from collections.abc import Callable

SYNC = {"sqlite": "sqlite", "postgres": "postgresql+psycopg", "mariadb": "mysql+pymysql"}
ASYNC = {"sqlite": "sqlite+aiosqlite", "postgres": "postgresql+asyncpg", "psycopg": "postgresql+psycopg"}


def engine_url(url: str, driver: str) -> URL:
    """Return the URL of the same database for SQLAlchemy."""
    parsed = DatabaseURL.parse(url)
    if parsed.path is not None:
        return URL.create(driver, database=str(parsed.path))
    return URL.create(
        driver,
        username=parsed.user,
        password=parsed.password,
        host=parsed.host,
        port=parsed.port,
        database=parsed.database,
    )


def prepared(url: str) -> None:
    with SyncConnectionManager(url) as manager:
        manager.execute("CREATE TABLE orders (number INTEGER)")


def written(url: str) -> list[int]:
    with SyncConnectionManager(url) as manager:
        return [row["number"] for row in manager.fetch("SELECT number FROM orders ORDER BY number")]


ORDER = text("INSERT INTO orders VALUES (:number)")


@pytest.mark.parametrize("kind", list(SYNC))
def test_run_and_writes_of_a_session_are_one_commit(kind: str, fresh_database: Callable[[str], str]) -> None:
    url = fresh_database(kind)
    prepared(url)
    app = Holdfast(url)

    @app.workflow
    def double(number: int) -> int:
        return 2 * number

    engine = create_engine(engine_url(url, SYNC[kind]))
    with app:
        queued = double.options(queue_name="orders", attributes={"colon": ":p1 and %s and $1 and ?"})
        with Session(engine) as session:
            session.execute(ORDER, {"number": 1})
            handle = queued.enqueue_in(session, 4)
            once = queued.options(deduplication_id="once")
            first = once.enqueue_in(session, 5)
            with pytest.raises(Deduplicated):
                once.enqueue_in(session, 6)
            assert once.options(on_duplicate="return_existing").enqueue_in(session, 6).workflow_id == first.workflow_id
            session.commit()
        with Session(engine) as session:
            session.execute(ORDER, {"number": 2})
            queued.enqueue_in(session, 7)
            session.rollback()
        with engine.begin() as connection:
            connection.execute(ORDER, {"number": 3})
            third = queued.enqueue_in(connection, 8)
        scoped = scoped_session(sessionmaker(engine))
        queued.options(workflow_id="scoped").enqueue_in(scoped, 9)  # type: ignore[arg-type]  # a proxy of a session
        scoped.commit()
        scoped.remove()
        assert written(url) == [1, 3]
        assert len(app.list_workflows(queue_name="orders")) == 4
        assert handle.status().attributes == {"colon": ":p1 and %s and $1 and ?"}
        app.register_queue("orders")
        assert [each.result(timeout=60) for each in (handle, first, third)] == [8, 10, 16]
    engine.dispose()


@pytest.mark.parametrize("kind", list(ASYNC))
def test_run_and_writes_of_an_async_session_are_one_commit(kind: str, fresh_database: Callable[[str], str]) -> None:
    url = fresh_database("postgres" if kind == "psycopg" else kind)
    prepared(url)
    app = AsyncHoldfast(url)

    @app.workflow
    async def double(number: int) -> int:
        return 2 * number

    async def main() -> None:
        engine = create_async_engine(engine_url(url, ASYNC[kind]))
        async with app:
            queued = double.options(queue_name="orders")
            async with AsyncSession(engine) as session:
                await session.execute(ORDER, {"number": 1})
                handle = await queued.enqueue_in(session, 4)
                await session.commit()
            async with AsyncSession(engine) as session:
                await session.execute(ORDER, {"number": 2})
                await queued.enqueue_in(session, 7)
                await session.rollback()
            async with engine.begin() as connection:
                await connection.execute(ORDER, {"number": 3})
                third = await queued.options(deduplication_id="once").enqueue_in(connection, 8)
                with pytest.raises(Deduplicated):
                    await queued.options(deduplication_id="once").enqueue_in(connection, 8)
            assert await asyncio.to_thread(written, url) == [1, 3]
            assert len(await app.list_workflows(queue_name="orders")) == 2
            await app.register_queue("orders")
            assert [await each.result(timeout=60) for each in (handle, third)] == [8, 16]
        await engine.dispose()

    asyncio.run(main())


def test_session_of_another_database_or_colour_is_refused(fresh_database: Callable[[str], str]) -> None:
    app = Holdfast(fresh_database("postgres"))

    @app.workflow
    def nothing() -> None:
        """Never run."""

    engine = create_engine("sqlite://")
    with app:
        queued: Any = nothing.options(queue_name="orders")
        with Session(engine) as session, pytest.raises(MisuseError, match="one database"):
            queued.enqueue_in(session)
        with pytest.raises(MisuseError, match="not in a AsyncSession"):
            queued.enqueue_in(AsyncSession())
        assert app.list_workflows() == []
    engine.dispose()


@pytest.mark.parametrize("kind", list(SYNC))
def test_session_in_the_database_of_another_application_is_refused(
    kind: str, fresh_database: Callable[[str], str]
) -> None:
    url, theirs = fresh_database(kind), fresh_database(kind)
    app, other = Holdfast(url), Holdfast(theirs)

    @app.workflow
    def nothing() -> None:
        """Never run."""

    @app.transaction(database=theirs)
    def there(transaction: Transaction) -> None:
        nothing.options(queue_name="orders").enqueue_in(transaction)

    engine = create_engine(engine_url(theirs, SYNC[kind]))
    with app, other:
        queued = nothing.options(queue_name="orders")
        for _ in range(2):
            with Session(engine) as session, pytest.raises(MisuseError, match="in another database"):
                queued.enqueue_in(session)
        with pytest.raises(MisuseError, match="in another database"):
            there()
        assert (app.list_workflows(), other.list_workflows()) == ([], [])
    engine.dispose()


def test_sessions_of_two_applications_in_one_database_are_told_apart(fresh_database: Callable[[str], str]) -> None:
    url = fresh_database("postgres")
    engine = create_engine(engine_url(url, SYNC["postgres"]), pool_size=1)
    first, second = Holdfast(url, schema="first"), Holdfast(url, schema="second")
    flows = [app.workflow(name="nothing")(_nothing) for app in (first, second)]
    with first, second, Session(engine) as session:
        for flow in flows:
            flow.options(queue_name="orders").enqueue_in(session)
        session.commit()
        assert [len(app.list_workflows()) for app in (first, second)] == [1, 1]
    engine.dispose()


def _nothing() -> None:
    """Never run."""
