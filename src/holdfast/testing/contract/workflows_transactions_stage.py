"""Where the suites of transactions play: transactions of either colour, awaited, and accounts that they pay from."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Protocol

from holdfast.db import DialectName

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.db.session import Row
    from holdfast.testing.contract.workflows_stage import App, Flow


class Refused(Exception):
    """What a function of these tests raises."""


class Observed(Protocol):
    """A database that is looked at from outside."""

    def rows(self, sql: str, *args: Any) -> list[Row]:
        """Read."""

    def execute(self, sql: str, *args: Any) -> int:
        """Write."""


class Tx:
    """A transaction of either colour, awaited."""

    def __init__(self, app: App, raw: Any) -> None:
        self._app = app
        self.raw = raw

    async def execute(self, sql: str, *args: Any) -> int:
        return int(await self._app.value(self.raw.execute(sql, *args)))

    async def fetchone(self, sql: str, *args: Any) -> Any:
        return await self._app.value(self.raw.fetchone(sql, *args))

    async def fetch(self, sql: str, *args: Any) -> Any:
        return await self._app.value(self.raw.fetch(sql, *args))


def transaction(app: App, body: Callable[..., Any], **options: Any) -> Callable[..., Awaitable[Any]]:
    """Register *body*, whose first parameter is a ``Tx``, as a transaction of *app*."""
    name = options.pop("name", body.__name__)

    async def called(tx: Any, *args: Any) -> Any:
        return await body(Tx(app, tx), *args)

    raw = app.raw.transaction(name=name, **options)(app.coloured(called))

    async def call(*args: Any) -> Any:
        return await app.value(raw(*args))

    return call


class Accounts:
    """A table of the user's own: names and amounts."""

    def __init__(self, database: Observed) -> None:
        self._database = database
        self.name = f"accounts_{secrets.token_hex(6)}"
        database.execute(f"CREATE TABLE {self.name} (who VARCHAR(40) NOT NULL PRIMARY KEY, cents INTEGER NOT NULL)")
        for who in ("ann", "bob"):
            database.execute(f"INSERT INTO {self.name} VALUES (?, 100)", who)

    def all(self) -> dict[str, int]:
        """Return what everybody has."""
        return {row["who"]: row["cents"] for row in self._database.rows(f"SELECT who, cents FROM {self.name}")}

    async def pay(self, tx: Tx, cents: int) -> int:
        """Move *cents* from ann to bob, and return what ann has left."""
        await tx.execute(f"UPDATE {self.name} SET cents = cents - ? WHERE who = ?", cents, "ann")
        await tx.execute(f"UPDATE {self.name} SET cents = cents + ? WHERE who = ?", cents, "bob")
        row = await tx.fetchone(f"SELECT cents FROM {self.name} WHERE who = ?", "ann")
        return int(row["cents"])


def too_slow(dialect: DialectName) -> list[str]:
    """Return statements of which the server breaks off the last; SQLite has no server, and refuses it."""
    return {
        DialectName.POSTGRES: ["SET LOCAL statement_timeout = 50", "SELECT pg_sleep(60)"],
        DialectName.MYSQL: ["SET STATEMENT max_statement_time = 0.05 FOR SELECT SLEEP(60)"],
        DialectName.SQLITE: ["SELECT no_such_function_of_mine()"],
    }[dialect]


def workflow_of(app: App, *calls: Callable[[], Awaitable[Any]]) -> Flow:
    """Return a workflow that makes *calls* one after the other and returns what they gave."""

    async def calling() -> list[Any]:
        return [await call() for call in calls]

    return app.workflow(calling)
