"""Flow checkpoints in SQLite, PostgreSQL and MariaDB/MySQL."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from holdfast.db.manager import ConnectionManager
from holdfast.db.settings import LARGE_PAGES
from holdfast.db.url import DialectName
from holdfast.errors import ConfigurationError, InvalidURL
from holdfast.model.world import RealWorld, World
from holdfast.stores.driven import DrivenSides
from holdfast.stores.flow.backend import ShelfBackend
from holdfast.stores.flow.queries import TABLE, flow_queries
from holdfast.stores.flow.sql_shelf import SQLShelf
from holdfast.stores.flow.sqlite_here import SqliteHere
from holdfast.stores.flow.straight import Straight
from holdfast.stores.flow.verbs import as_storage_error
from holdfast.stores.sides import Sides

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Self

    from holdfast.stores.flow.sql_shelf import Database

FILE = ".holdfast_flow_checkpoints.db"
_POOL_SIZE = 5
_FORMS = {DialectName.POSTGRES: "postgresql://", DialectName.MYSQL: "mysql://"}


class _SQLCheckpointBackend(ShelfBackend):
    _dialect: DialectName

    @classmethod
    def from_session(cls, session: Any, *, table_name: str = TABLE, **options: Any) -> Self:
        """Return a backend that writes in the transaction of *session*, which commits it or does not.

        A ``Session`` of SQLAlchemy is for the sync calls, an ``AsyncSession`` for the others, used as the session
        itself: by one thread or task at a time. Nothing is committed or closed here. A call that fails leaves the
        session to be rolled back. What is rolled back has the revision again that it had before, so it may be saved in
        the next transaction. The table is made if it is not there, in the same transaction; on MariaDB it has to
        be there, because making it would commit. Options are those of ``ShelfBackend``.
        """
        from holdfast.stores.flow.sessions import SessionWay  # noqa: PLC0415 -- SQLAlchemy is an extra

        way = SessionWay(session, cls._dialect, table_name, options.get("world"))
        made = cls.__new__(cls)
        ShelfBackend.__init__(made, way, rises=way.note, **options)
        return made


def _sides(
    url: str | os.PathLike[str],
    dialect: DialectName,
    table_name: str,
    pool_size: int,
    clock_offset_ms: str | None,
    world: World,
) -> Sides[SQLShelf]:
    if dialect is not DialectName.SQLITE and "://" not in os.fspath(url):
        raise InvalidURL(
            f"This backend is for {dialect} and takes a URL: {_FORMS[dialect]}user:password@host/database."
        )

    def manager(size: int) -> ConnectionManager:
        made = ConnectionManager(url, pool_size=size)
        made.settings = replace(made.settings, page_bytes=LARGE_PAGES)
        return made

    template = manager(pool_size)
    if template.dialect is not dialect:
        raise ConfigurationError(f"This backend is for {dialect}, and the URL is one of {template.dialect}.")
    flow_queries(dialect, table_name)  # a name that is not allowed is refused here, not at the first save

    async def opened(database: Database, *, shared: bool) -> SQLShelf:
        shelf = SQLShelf(database, world, table_name=table_name, clock_offset_ms=clock_offset_ms, shared=shared)
        try:
            with as_storage_error("The checkpoints could not be opened"):
                await shelf.initialize()
        except BaseException:
            await shelf.close()
            raise
        return shelf

    def on_a_loop() -> Coroutine[Any, Any, SQLShelf]:
        return opened(manager(pool_size), shared=True)

    if template.url.path is not None:
        return Straight(on_a_loop, lambda: opened(SqliteHere(template.settings), shared=False), let_go=SQLShelf.let_go)
    if template.url.in_memory:
        return Sides(on_a_loop, one=True)
    return DrivenSides(on_a_loop, lambda: opened(manager(1), shared=False))


class SQLiteCheckpointBackend(_SQLCheckpointBackend):
    """Flow checkpoints in a SQLite file, shared by any number of processes; ``:memory:`` keeps them in this one.

    Options are those of ``ShelfBackend``: *max_bytes*, *max_checkpoints*, *ttl*.
    """

    _dialect = DialectName.SQLITE

    def __init__(
        self,
        db_path: str | os.PathLike[str] = FILE,
        *,
        table_name: str = TABLE,
        clock_offset_ms: str | None = None,
        world: World | None = None,
        **options: Any,
    ) -> None:
        self.db_path = db_path
        surroundings = world or RealWorld()
        way = _sides(db_path, self._dialect, table_name, _POOL_SIZE, clock_offset_ms, surroundings)
        super().__init__(way, world=surroundings, **options)


class PostgresCheckpointBackend(_SQLCheckpointBackend):
    """Flow checkpoints in PostgreSQL. *table_name* may have a schema before a dot.

    *pool* is a pool of somebody else's in place of a *connection_string*: anything with ``getconn()`` and ``putconn()``
    whose connections are those of psycopg. It stays open. Options are those of ``ShelfBackend``: *max_bytes*,
    *max_checkpoints*, *ttl*.
    """

    _dialect = DialectName.POSTGRES

    def __init__(
        self,
        connection_string: str | None = None,
        table_name: str = TABLE,
        pool_size: int = _POOL_SIZE,
        pool: Any = None,
        *,
        clock_offset_ms: str | None = None,
        world: World | None = None,
        **options: Any,
    ) -> None:
        surroundings = world or RealWorld()
        if (connection_string is None) == (pool is None):
            raise ConfigurationError(
                "Say where the database is, and once: PostgresCheckpointBackend('postgresql://...') or pool=."
            )
        if connection_string is None:
            from holdfast.stores.flow.pools import PoolWay  # noqa: PLC0415 -- few have a pool of their own

            pooled = PoolWay(pool, table_name, surroundings)
            super().__init__(pooled, world=surroundings, rises=pooled.note, **options)
            return
        way = _sides(connection_string, self._dialect, table_name, pool_size, clock_offset_ms, surroundings)
        super().__init__(way, world=surroundings, **options)


class MySQLCheckpointBackend(_SQLCheckpointBackend):
    """Flow checkpoints in MariaDB or MySQL.

    Options are those of ``ShelfBackend``: *max_bytes*, *max_checkpoints*, *ttl*.
    """

    _dialect = DialectName.MYSQL

    def __init__(
        self,
        connection_string: str,
        table_name: str = TABLE,
        pool_size: int = _POOL_SIZE,
        *,
        clock_offset_ms: str | None = None,
        world: World | None = None,
        **options: Any,
    ) -> None:
        surroundings = world or RealWorld()
        way = _sides(connection_string, self._dialect, table_name, pool_size, clock_offset_ms, surroundings)
        super().__init__(way, world=surroundings, **options)
