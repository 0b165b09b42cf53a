"""A small pool of sessions: last in, first out, a fair queue for those who wait, and nothing sent to check or reset.

A session that is known to be broken is dropped at either end. Sessions must come back clean: no open transaction.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.errors import NotInitialized, Unavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.db.session import LentSession


class Pool:
    """At most *size* sessions at a time, kept for reuse unless *keep* is false."""

    def __init__(
        self, connect: Callable[[], Awaitable[LentSession]], *, size: int, timeout: float, keep: bool = True
    ) -> None:
        self._connect = connect
        self._size = size
        self._timeout = timeout
        self._keep = keep
        self._idle: list[LentSession] = []
        self._turns = asyncio.Semaphore(size)
        self._closed = False

    async def acquire(self) -> LentSession:
        """Take a session; ``Unavailable`` when none came free in time or none could be made."""
        await self._wait_for_turn()
        try:
            if self._closed:
                raise NotInitialized("The connection manager is closed; call initialize() to open it again.")
            while self._idle:
                session = self._idle.pop()
                if session.usable:
                    return session
                await session.close()
            return await self._connect()
        except BaseException:
            self._turns.release()
            raise

    async def release(self, session: LentSession) -> None:
        """Give a session back; a broken one is dropped."""
        try:
            if session.usable and self._keep and not self._closed:
                self._idle.append(session)
            else:
                await session.close()
        finally:
            self._turns.release()

    async def close(self) -> None:
        """Refuse those who wait, let those under way finish, close every session.

        What is still lent when the pool's timeout has passed is closed when it comes back.
        """
        self._closed = True
        idle, self._idle = self._idle, []
        await asyncio.gather(*(session.close() for session in idle))  # a server that is silent keeps each waiting
        with suppress(TimeoutError):
            async with asyncio.timeout(self._timeout):
                for _ in range(self._size):
                    await self._turns.acquire()

    async def _wait_for_turn(self) -> None:
        if not self._turns.locked():
            await self._turns.acquire()
            return
        try:
            async with asyncio.timeout(self._timeout):
                await self._turns.acquire()
        except TimeoutError:
            raise Unavailable(
                f"All {self._size} connections were busy for {self._timeout:g} s. "
                "Raise pool_size, or look for transactions that stay open."
            ) from None
