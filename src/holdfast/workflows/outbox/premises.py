"""Whether a transaction of the user's own is in the application's database: what commits elsewhere is lost to it.

The database itself is asked, since one database has many URLs: what it is called, and a mark that its tables were given
when they were made. Each connection is asked once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary

from holdfast.errors import MisuseError, QueryFailed

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from holdfast.db import ConnectionManager, Transaction
    from holdfast.db.queries.queries import Queries, Query
    from holdfast.db.session import Row

    Told = tuple[Any, Any]


class Asked(Protocol):
    """What can be asked where it is: a transaction, or what has its verbs."""

    async def fetch(self, sql: Query, /) -> list[Row]:
        """Run a query; return its rows."""


class Premises:
    """Knows the application's database, and which connections lead there."""

    def __init__(self, manager: ConnectionManager, queries: Queries) -> None:
        self._manager = manager
        self._query = queries["database_here"]
        self._sessions: WeakKeyDictionary[Any, Told] = WeakKeyDictionary()

    async def open(self) -> None:
        """Learn which database the application is in; once, before anything is asked."""
        self._own = await self._told(self._manager)

    async def check(self, transaction: Transaction) -> None:
        """Raise ``MisuseError`` for a transaction of ours that is in another database."""
        if transaction.dialect is not self._manager.dialect:
            raise self._elsewhere("another database")
        await self.check_remembered(transaction, self._sessions, transaction.session)

    async def check_remembered(self, asked: Asked, known: MutableMapping[Any, Any], key: Any) -> None:
        """Do as ``check`` for what is *asked*, unless its answer is *known* under *key*."""
        told = known.get(key)
        if told is None:
            try:
                told = known[key] = await self._told(asked)
            except QueryFailed as error:
                raise self._elsewhere("a database without tables of Holdfast") from error
        if told != self._own:
            raise self._elsewhere("another database")

    async def _told(self, asked: Asked) -> Told:
        [row] = await asked.fetch(self._query)
        return row["name"], row["mark"]

    def _elsewhere(self, where: str) -> MisuseError:
        return MisuseError(
            f"enqueue_in() was given a transaction in {where}, but the application's runs are in "
            f"{self._manager.url.safe}: both must be in one database, to commit together. Open the transaction there; "
            "or call enqueue() after the commit, or in a workflow after the step that commits."
        )
