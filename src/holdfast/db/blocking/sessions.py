"""Sessions for threads that wait: each has a loop of its own, which the waiting thread runs itself.

To wake another loop for a statement, and to be woken by it, takes a thread longer than the statement.
"""

from __future__ import annotations

import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.db.blocking.driving import DrivenLoop, drive, drive_task, hear
from holdfast.db.blocking.glances import until
from holdfast.errors import NotInitialized, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from holdfast.db.session import LentSession, Row

T = TypeVar("T")

_SILENCE = 0.1  # seconds
_LOOK = 0.001  # seconds


class ThreadSession:
    """A session that *connect* opens, on a loop that runs only while a thread waits for an answer.

    It never suspends: ``run_sync`` drives what uses it. A thread that is interrupted while it waits leaves it of no
    use. After a silence it first hears what was said to it meanwhile: a connection that its server has ended is then
    known to be of no use before anything is sent, and a commit is not left in doubt.
    """

    def __init__(self, connect: Callable[[], Coroutine[Any, Any, LentSession]]) -> None:
        self._connect = connect
        self._loop = DrivenLoop()
        self._session: LentSession | None = None
        self._last = 0.0

    @property
    def usable(self) -> bool:
        return not self._loop.is_torn and self._opened().usable

    @property
    def in_transaction(self) -> bool:
        return self._opened().in_transaction

    def open(self) -> None:
        """Connect, unless there is a connection that is of use."""
        if self._session is not None:
            self._hear()
            if self.usable:
                return
            self.end()
            self._loop = DrivenLoop()
        self._session = drive_task(self._loop, self._connect())
        self._last = time.monotonic()

    async def execute(self, sql: str, args: Sequence[Any]) -> int:
        return self._driven(self._opened().execute(sql, args))

    async def fetch(self, sql: str, args: Sequence[Any]) -> list[Row]:
        return self._driven(self._opened().fetch(sql, args))

    async def begin(self, isolation: str | None = None, *, with_next: bool = False) -> None:
        self._driven(self._opened().begin(isolation, with_next=with_next))

    async def commit(self) -> None:
        self._driven(self._opened().commit())

    async def commit_after(self, sql: str, args: Sequence[Any]) -> bool:
        return self._driven(self._opened().commit_after(sql, args))

    async def rollback(self) -> None:
        if not self._loop.is_torn:
            self._driven(self._opened().rollback())

    async def close(self) -> None:
        self.end()

    def end(self) -> None:
        """End the connection and the loop."""
        session, self._session = self._session, None
        try:
            if session is not None and not self._loop.is_torn:
                drive_task(self._loop, session.close())
                hear(self._loop)  # so that its socket is closed
        finally:
            self._loop.cut()

    def _opened(self) -> LentSession:
        if self._session is None:
            raise NotInitialized("This connection of a thread was closed; take another one.")
        return self._session

    def _driven(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            self._hear()
            return drive(self._loop, work)
        except Exception:
            raise
        except BaseException:  # an interrupt, perhaps of the driver's own code
            self._loop.is_torn = True
            work.close()
            raise
        finally:
            self._last = time.monotonic()

    def _hear(self) -> None:
        if time.monotonic() - self._last > _SILENCE:
            hear(self._loop)


class ThreadSessions:
    """At most *size* sessions at a time for threads, kept for reuse unless *keep* is false: last in, first out.

    A thread may be interrupted anywhere. So nothing but a plain lock is held, and a session that a thread has lost is
    not counted for ever.
    """

    def __init__(
        self, connect: Callable[[], Coroutine[Any, Any, LentSession]], *, size: int, timeout: float, keep: bool
    ) -> None:
        self._connect = connect
        self._size = size
        self._timeout = timeout
        self._keep = keep
        self._lock = threading.Lock()
        self._idle: list[ThreadSession] = []
        self._lent: weakref.WeakSet[ThreadSession] = weakref.WeakSet()
        self._is_closed = False

    @property
    def has_room(self) -> bool:
        """Whether a thread would not have to wait."""
        return len(self._lent) < self._size

    def acquire(self) -> ThreadSession:
        """Take a session, connected; ``Unavailable`` when none came free in time or none could be made."""
        end = time.monotonic() + self._timeout
        while (session := self._taken()) is None:  # seldom: whoever looks for room first finds it but for a race
            if time.monotonic() > end:
                raise Unavailable(
                    f"All {self._size} connections for threads were busy for {self._timeout:g} s. "
                    "Look for transactions that stay open."
                )
            time.sleep(_LOOK)
        try:
            session.open()
        except BaseException:
            self._drop(session)
            raise
        return session

    def _taken(self) -> ThreadSession | None:
        with self._lock:
            if self._is_closed:
                raise NotInitialized("The connection manager is closed; call initialize() to open it again.")
            if not self.has_room:
                return None
            session = self._idle.pop() if self._idle else ThreadSession(self._connect)
            self._lent.add(session)
            return session

    def release(self, session: ThreadSession) -> None:
        """Give a session back; one that is of no use is dropped."""
        with self._lock:
            if session.usable and self._keep and not self._is_closed:
                self._lent.discard(session)
                self._idle.append(session)
                return
        self._drop(session)

    async def close(self) -> None:
        """Let go, and wait for those under way, for as long as the timeout: they may need this loop to go on."""
        self.let_go()
        end = time.monotonic() + self._timeout
        await until(lambda: not self._lent or time.monotonic() > end)

    def let_go(self) -> None:
        """Refuse those who wait, and end every session: those that are lent when they are given back."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for session in idle:
            session.end()

    def _drop(self, session: ThreadSession) -> None:
        try:
            session.end()
        finally:
            self._lent.discard(session)
