"""Flow checkpoints in SQLite, PostgreSQL and MariaDB/MySQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.db.manager import ConnectionManager
from holdfast.errors import ConfigurationError
from holdfast.model.world import RealWorld, World
from holdfast.stores.flow.backend import CheckpointBackend
from holdfast.stores.flow.queries import TABLE, flow_queries
from holdfast.stores.flow.sql_shelf import SQLShelf

if TYPE_CHECKING:
    import os

FILE = ".holdfast_flow_checkpoints.db"


class _SQLCheckpointBackend(CheckpointBackend):
    def __init__(
        self,
        url: str | os.PathLike[str],
        *,
        table_name: str,
        pool_size: int,
        clock_offset_ms: str | None,
        world: World | None,
    ) -> None:
        surroundings = world or RealWorld()
        template = ConnectionManager(url)
        flow_queries(template.dialect, table_name)  # a name that is not allowed is refused here, not at the first save

        async def opened() -> SQLShelf:
            manager = ConnectionManager(url, pool_size=pool_size)
            shelf = SQLShelf(manager, surroundings, table_name=table_name, clock_offset_ms=clock_offset_ms)
            await shelf.initialize()
            return shelf

        super().__init__(opened, one=template.url.in_memory, world=surroundings)


class SQLiteCheckpointBackend(_SQLCheckpointBackend):
    """Flow checkpoints in a SQLite file, shared by any number of processes; ``:memory:`` keeps them in this one."""

    def __init__(
        self,
        db_path: str | os.PathLike[str] = FILE,
        *,
        table_name: str = TABLE,
        clock_offset_ms: str | None = None,
        world: World | None = None,
    ) -> None:
        super().__init__(db_path, table_name=table_name, pool_size=5, clock_offset_ms=clock_offset_ms, world=world)


class PostgresCheckpointBackend(_SQLCheckpointBackend):
    """Flow checkpoints in PostgreSQL. *table_name* may have a schema before a dot."""

    def __init__(
        self,
        connection_string: str | None = None,
        table_name: str = TABLE,
        pool_size: int = 5,
        *,
        clock_offset_ms: str | None = None,
        world: World | None = None,
    ) -> None:
        if connection_string is None:
            raise ConfigurationError("Say where the database is: PostgresCheckpointBackend('postgresql://...').")
        super().__init__(
            connection_string,
            table_name=table_name,
            pool_size=pool_size,
            clock_offset_ms=clock_offset_ms,
            world=world,
        )


class MySQLCheckpointBackend(_SQLCheckpointBackend):
    """Flow checkpoints in MariaDB or MySQL."""

    def __init__(
        self,
        connection_string: str,
        table_name: str = TABLE,
        pool_size: int = 5,
        *,
        clock_offset_ms: str | None = None,
        world: World | None = None,
    ) -> None:
        super().__init__(
            connection_string,
            table_name=table_name,
            pool_size=pool_size,
            clock_offset_ms=clock_offset_ms,
            world=world,
        )
