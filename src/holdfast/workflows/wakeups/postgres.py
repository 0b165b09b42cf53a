"""Hints between the processes that share a PostgreSQL database: LISTEN and NOTIFY, on a connection of their own.

A commit with a NOTIFY in it waits for all other such commits of the whole server, so it is never part of a durable
write: one task notifies afterwards, at most once in a few milliseconds, whatever the number of writes.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

from holdfast.core.backoff import backoff
from holdfast.db.postgres.listener import listen, notification
from holdfast.db.queries.identifiers import check_identifier, quote
from holdfast.db.url import DialectName
from holdfast.errors import DatabaseError

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.db.manager import ConnectionManager
    from holdfast.model.world import World

logger = logging.getLogger("holdfast.dispatch")

# Between two notifications; what is told meanwhile is told once. It grows while there is always something to tell.
_SHORTEST, _LONGEST = 0.001, 0.008
_CHECK_EVERY = 15.0  # a connection that a firewall has dropped looks alive until something is said on it
_PATIENCE = 5.0
_FAREWELL = 1.0


class Notifier(Protocol):
    """A way to notify, and perhaps to hear; one task uses it."""

    hears: bool

    @property
    def usable(self) -> bool:
        """False once it is known that nothing can be said or heard any more."""

    async def notify(self) -> None:
        """Tell all who listen."""

    async def check(self) -> None:
        """Find out whether it is usable."""

    async def close(self) -> None:
        """End it; never raises."""


class PooledNotifier:
    """Notifies on any connection of the manager's, and hears nothing."""

    hears = False
    usable = True

    def __init__(self, manager: ConnectionManager, channel: str) -> None:
        self._manager = manager
        self._notification = notification(quote(channel, DialectName.POSTGRES, "channel"))

    async def notify(self) -> None:
        """Tell all who listen."""
        await self._manager.execute(self._notification)

    async def check(self) -> None:
        """Do nothing: the pool looks after its connections."""

    async def close(self) -> None:
        """Do nothing."""


class PostgresWakeUps:
    """Listens, and notifies what was told. The channel has the name of the schema; notifications have no payload.

    A connection that breaks is replaced, after longer and longer waits; what is told meanwhile is told then.
    """

    def __init__(
        self, manager: ConnectionManager, schema: str, world: World, wake: Callable[[], None], *, listens: bool
    ) -> None:
        self._manager = manager
        self._channel = check_identifier(schema, DialectName.POSTGRES, "schema")
        self._world = world
        self._wake = wake
        self._listens = listens
        self._notifier: Notifier | None = None
        self._told = False
        self._spacing = _SHORTEST
        self._stirred = asyncio.Event()
        self._stopping = asyncio.Event()
        self._failures = 0
        self._task: asyncio.Task[None] | None = None

    @property
    def alive(self) -> bool:
        """Whether the connection listens."""
        return self._notifier is not None and self._notifier.hears and self._notifier.usable

    async def start(self) -> None:
        """Connect and listen in a task of its own."""
        self._task = asyncio.create_task(self._run(), name="holdfast-wakeups")

    async def stop(self) -> None:
        """Notify once more if something was told, then end the connection."""
        self._stopping.set()
        self._stirred.set()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=_FAREWELL)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def tell(self) -> None:
        """Have others notified soon."""
        self._told = True
        self._stirred.set()

    def _heard(self) -> None:
        if not self._stopping.is_set():
            self._wake()

    async def _run(self) -> None:
        while not self._stopping.is_set() or (self._told and not self._failures):
            try:
                await self._converse()
            except (DatabaseError, TimeoutError) as error:
                self._note(error)
            except Exception:
                # The service loop: without it no hint would ever be heard again.
                self._failures += 1
                logger.exception("Listening for hints failed and is tried again.")
            if not self._stopping.is_set():
                pause = backoff(max(1, self._failures), base=0.1, cap=5.0, draw=self._world.random.random())
                await _set_within(self._stopping, pause)

    async def _converse(self) -> None:
        """Open a notifier, and use it until it breaks or is not wanted any more."""
        notifier = await self._open()
        try:
            self._notifier = notifier
            self._failures = 0
            if notifier.hears:
                self._heard()  # of what was told before there was no hint
            while notifier.usable and (self._told or not self._stopping.is_set()):
                await self._say_or_check(notifier)
        finally:
            self._notifier = None
            await notifier.close()

    async def _open(self) -> Notifier:
        if not self._listens:
            return PooledNotifier(self._manager, self._channel)
        async with asyncio.timeout(self._manager.settings.connect_timeout + _PATIENCE):
            return await listen(self._manager.settings, self._channel, self._heard, self._stirred.set)

    async def _say_or_check(self, notifier: Notifier) -> None:
        """Wait until there is something to say, and say it; or make sure after a long silence that it could be said."""
        stirred = await _set_within(self._stirred, _CHECK_EVERY)
        self._stirred.clear()
        if not self._told:
            if not stirred:
                async with asyncio.timeout(_PATIENCE):
                    await notifier.check()
            return
        self._told = False
        try:
            async with asyncio.timeout(_PATIENCE):
                await notifier.notify()
        except DatabaseError as error:
            if not notifier.usable:
                raise
            logger.debug("A hint was not sent: %s", error)
        await _set_within(self._stopping, self._spacing)
        self._spacing = min(_LONGEST, self._spacing * 2) if self._told else _SHORTEST

    def _note(self, error: Exception) -> None:
        self._failures += 1
        level = logging.WARNING if self._failures == 1 else logging.DEBUG
        why = str(error) or "PostgreSQL did not answer"  # as a bare TimeoutError says nothing
        logger.log(level, "There are no hints between processes for now; polling goes on: %s", why)


async def _set_within(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
