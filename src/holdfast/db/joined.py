"""The verbs of a connection manager inside a transaction that is open already."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from holdfast.db.queries.queries import Query
    from holdfast.db.session import Row, Transaction

T = TypeVar("T")


class Verbs(Protocol):
    """What code needs that may be asked to do its part alone, or as a part of something larger."""

    async def run(
        self, work: Callable[[Transaction], Coroutine[Any, Any, T]], *, isolation: str | None = None
    ) -> T: ...
    async def execute(self, sql: str | Query, *args: Any, **named: Any) -> int: ...
    async def fetch(self, sql: str | Query, *args: Any, **named: Any) -> list[Row]: ...
    async def fetchone(self, sql: str | Query, *args: Any, **named: Any) -> Row | None: ...


class Joined:
    """Does everything in one open transaction, whose opener commits it, and begins it again if the database asks."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self.execute = transaction.execute
        self.fetch = transaction.fetch
        self.fetchone = transaction.fetchone

    async def run(
        self,
        work: Callable[[Transaction], Coroutine[Any, Any, T]],
        *,
        isolation: str | None = None,  # noqa: ARG002 -- it is as its opener has said
    ) -> T:
        """Run *work* as a part of the transaction."""
        return await work(self._transaction)


__all__ = ["Joined", "Verbs"]
