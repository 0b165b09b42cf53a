"""Where the suites of transactions in another database play: the data in the venue, the runs in a SQLite file.

The data is reached by ``database=``, or by ``engine=`` of SQLAlchemy.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.db import DatabaseURL, DialectName, SyncConnectionManager
from holdfast.testing.colours import Colour
from holdfast.testing.contract.workflows_stage import App, Stage
from holdfast.testing.contract.workflows_transactions_stage import transaction

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from holdfast.db.session import Row
    from holdfast.testing.contract.venue import Venue

_DRIVERS = {
    (DialectName.SQLITE, Colour.SYNC): "sqlite",
    (DialectName.SQLITE, Colour.ASYNC): "sqlite+aiosqlite",
    (DialectName.POSTGRES, Colour.SYNC): "postgresql+psycopg",
    (DialectName.POSTGRES, Colour.ASYNC): "postgresql+asyncpg",
    (DialectName.MYSQL, Colour.SYNC): "mysql+pymysql",
    (DialectName.MYSQL, Colour.ASYNC): "mysql+asyncmy",
}


class SessionTx:
    """A session of SQLAlchemy of either colour with the verbs of a transaction."""

    def __init__(self, app: App, raw: Any) -> None:
        self._app = app
        self.raw = raw

    async def execute(self, sql: str, *args: Any) -> int:
        return int((await self._run(sql, args)).rowcount)

    async def fetchone(self, sql: str, *args: Any) -> Any:
        return (await self._run(sql, args)).mappings().first()

    async def do(self, verb: str) -> Any:
        """Call a method of the session."""
        return await self._app.value(getattr(self.raw, verb)())

    async def _run(self, sql: str, args: tuple[Any, ...]) -> Any:
        from sqlalchemy import text  # noqa: PLC0415 -- only for those who try this way

        names = iter(range(len(args)))
        named = "".join(f":p{next(names)}" if part == "?" else part for part in sql)
        values = {f"p{number}": value for number, value in enumerate(args)}
        return await self._app.value(self.raw.execute(text(named), values))


class Elsewhere:
    """Data in the venue, and a stage for applications whose runs are in a file."""

    def __init__(self, venue: Venue, way: str, folder: str) -> None:
        self.venue = venue
        self.way = way
        self.dialect = venue.dialect
        self.stage = Stage(replace(venue, url=f"sqlite:///{Path(folder) / 'runs.sqlite'}"))
        self.data = SyncConnectionManager(venue.url, pool_size=2)
        self._engine: Any = None

    def rows(self, sql: str, *args: Any) -> list[Row]:
        """Read from the data."""
        return self.data.fetch(sql, *args)

    def execute(self, sql: str, *args: Any) -> int:
        """Write to the data behind everybody's back."""
        return self.data.execute(sql, *args)

    @property
    def table(self) -> str:
        """The name of the table of outputs."""
        return "holdfast.transaction_outputs" if self.dialect is DialectName.POSTGRES else "transaction_outputs"

    def outputs(self, workflow_id: str) -> list[Any]:
        """Return the outputs of a run."""
        rows = self.rows(f"SELECT output FROM {self.table} WHERE workflow_id = ? ORDER BY identity", workflow_id)
        return [row["output"] for row in rows]

    def other_app(self) -> App:
        """Return an application, not launched yet, whose runs are in a database of their own."""
        made = App(self.venue.colour, self.stage.url.replace("runs.sqlite", "others.sqlite"), lease=5)
        self.stage._apps.append(made)  # noqa: SLF001 -- to be closed with the others
        return made

    def transaction(self, app: App, body: Callable[..., Any], **options: Any) -> Callable[..., Awaitable[Any]]:
        """Register *body* as a transaction whose data is here."""
        if self.way == "database":
            return transaction(app, body, database=self.venue.url, **options)
        return _session_transaction(app, body, self.engine, **options)

    @property
    def engine(self) -> Any:
        """An engine of SQLAlchemy of the venue's colour."""
        if self._engine is None:
            self._engine = _engine_for(self.venue)
        return self._engine

    async def dispose(self) -> None:
        """End what SQLAlchemy keeps open."""
        if self._engine is not None:
            made = self._engine.dispose()
            if self.venue.colour is Colour.ASYNC:
                await made


def _session_transaction(
    app: App, body: Callable[..., Any], engine: Any, **options: Any
) -> Callable[..., Awaitable[Any]]:
    async def called(session: Any, *args: Any) -> Any:
        return await body(SessionTx(app, session), *args)

    raw = app.raw.transaction(name=body.__name__, engine=engine, **options)(app.coloured(called))

    async def call(*args: Any) -> Any:
        return await app.value(raw(*args))

    return call


def _engine_for(venue: Venue) -> Any:
    from sqlalchemy import URL, create_engine  # noqa: PLC0415 -- only for those who try this way
    from sqlalchemy.ext.asyncio import create_async_engine  # noqa: PLC0415 -- likewise

    url = DatabaseURL.parse(venue.url)
    made = URL.create(
        _DRIVERS[url.dialect, venue.colour],
        username=url.user,
        password=url.password,
        host=url.host,
        port=url.port,
        database=url.path or url.database,
    )
    return create_async_engine(made) if venue.colour is Colour.ASYNC else create_engine(made)


def play(venue: Venue, way: str, scene: Callable[[Elsewhere, Stage], Coroutine[Any, Any, None]]) -> None:
    """Play *scene* with the data in *venue*."""
    with tempfile.TemporaryDirectory() as folder:
        elsewhere = Elsewhere(venue, way, folder)

        async def played(stage: Stage) -> None:
            try:
                await scene(elsewhere, stage)
            finally:
                for app in stage._apps:  # noqa: SLF001 -- closed before who still waits goes on and connects again
                    await app.close()
                await elsewhere.dispose()

        with elsewhere.data:
            elsewhere.stage.play(played)
