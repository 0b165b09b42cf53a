"""Where a contract is tried: a database, a colour, and what this backend cannot do."""

from __future__ import annotations

import asyncio
import contextvars
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.db import ConnectionManager, DatabaseURL, DialectName
from holdfast.testing.colours import Colour, manager_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from holdfast.testing.colours import Manager

T = TypeVar("T")

_TYPES = {
    "text": ("TEXT", "TEXT", "LONGTEXT CHARACTER SET utf8mb4"),
    "bytes": ("BLOB", "BYTEA", "LONGBLOB"),
    "double": ("REAL", "DOUBLE PRECISION", "DOUBLE"),
    "time": ("TEXT", "TIMESTAMPTZ", "DATETIME(6)"),
}
_PLACES = {DialectName.SQLITE: 0, DialectName.POSTGRES: 1, DialectName.MYSQL: 2}
_PATIENCE = 60.0


@dataclass(frozen=True)
class Venue:
    """A database in a colour. *shared* is false if no second client can reach it, as with SQLite in memory."""

    name: str
    url: str
    colour: Colour
    shared: bool = True

    @property
    def dialect(self) -> DialectName:
        """Which SQL is spoken here."""
        return DatabaseURL.parse(self.url).dialect

    @property
    def pooled(self) -> bool:
        """Whether many can write at once; SQLite has one writer, for whom all others wait."""
        return self.dialect is not DialectName.SQLITE

    def type(self, name: str) -> str:
        """Return the column type for "text", "bytes", "double" or "time"."""
        return _TYPES[name][_PLACES[self.dialect]]

    def key(self, column: str, length: int) -> str:
        """Return the definition of a key column that holds *length* characters and compares them exactly."""
        if self.dialect is DialectName.SQLITE:
            return (
                f"{column} TEXT NOT NULL PRIMARY KEY CONSTRAINT {column}_too_long CHECK (length({column}) <= {length})"
            )
        exact = " CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin" if self.dialect is DialectName.MYSQL else ""
        return f"{column} VARCHAR({length}){exact} NOT NULL PRIMARY KEY"

    def manager(self, **options: Any) -> Manager:
        """Return a manager of this venue's colour, not open yet."""
        return manager_of(self.colour, self.url, **options)

    def play(self, scene: Callable[[Manager], Coroutine[Any, Any, T]], **options: Any) -> T:
        """Run *scene* with an open manager, on a loop of its own."""

        async def main() -> T:
            async with self.manager(**options) as manager:
                return await scene(manager)

        return asyncio.run(main())

    async def table(self, manager: Manager | ConnectionManager, columns: str | None = None) -> str:
        """Make a table that no other test has, by default of a key ``k`` and a number ``v``; return its name."""
        name = f"t_{secrets.token_hex(6)}"
        await manager.execute(f"CREATE TABLE {name} ({columns or self.key('k', 40) + ', v INTEGER'})")
        return name


async def apart(work: Coroutine[Any, Any, T]) -> T:
    """Do *work* as a task that has nothing to do with the one that calls, not even a transaction it is inside of."""
    return await asyncio.create_task(work, context=contextvars.Context())


async def until(condition: Callable[[], bool]) -> None:
    """Let everything else run until *condition* holds; fail if it never does."""
    async with asyncio.timeout(_PATIENCE):
        while not condition():  # noqa: ASYNC110 -- what is watched is a number, which nobody announces
            await asyncio.sleep(0.001)
