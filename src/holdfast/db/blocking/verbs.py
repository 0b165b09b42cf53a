"""The verbs of a connection manager, for threads that wait for the answers themselves."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.core.backoff import backoff
from holdfast.errors import Retryable, UnknownCommit

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from holdfast.db.manager import ConnectionManager
    from holdfast.db.queries.queries import Query
    from holdfast.db.session import LentSession, Row

T = TypeVar("T")

_ATTEMPTS = 8


class ThreadVerbs:
    """What a thread may ask of *manager* past its loop, while ``serves_threads``; ``run_sync`` drives it.

    Each call is a statement in a transaction of its own.
    """

    def __init__(self, manager: ConnectionManager) -> None:
        self._manager = manager

    async def fetch(self, query: Query, **named: Any) -> list[Row]:
        """Run a query of one statement, which only reads, again if need be; return its rows."""
        [(text, values)] = query.bind(named)
        for failures in range(1, _ATTEMPTS):
            try:
                return await self._lent(lambda session: session.fetch(text, values))
            except (Retryable, UnknownCommit):  # a question that is lost is asked again
                pause = backoff(failures, base=0.005, cap=1.0, draw=self._manager.world.random.random())
                time.sleep(pause)  # noqa: ASYNC251 -- no loop is held up by this thread
        return await self._lent(lambda session: session.fetch(text, values))

    async def fetchone(self, query: Query, **named: Any) -> Row | None:
        """Run a query of one statement, which only reads; return its first row, or None."""
        rows = await self.fetch(query, **named)
        return rows[0] if rows else None

    async def execute(self, text: str, values: Sequence[Any]) -> int:
        """Run one statement in the driver's own SQL, once; return how many rows it touched."""
        return await self._lent(lambda session: session.execute(text, values))

    async def _lent(self, work: Callable[[LentSession], Coroutine[Any, Any, T]]) -> T:
        lender = self._manager.lender(to_thread=True)
        session = await lender.acquire(to_thread=True)
        try:
            return await work(session)
        finally:
            await lender.release(session)
