"""A PostgreSQL connection of its own that hears what is notified on one channel, and notifies.

It shares nothing with the pool: a connection with a transaction open, or lent to somebody, hears nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.db.postgres import postgres
from holdfast.db.queries.identifiers import quote
from holdfast.db.url import DialectName

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.db.postgres.postgres import PostgresSession
    from holdfast.db.settings import Settings


class PostgresListener:
    """Made by ``listen``. Used by one task at a time; after an error from any call, ask ``usable``."""

    hears = True

    def __init__(self, session: PostgresSession, channel: str) -> None:
        self._session = session
        self._channel = quote(channel, DialectName.POSTGRES, "channel")

    @property
    def usable(self) -> bool:
        """False once the connection is known to be gone."""
        return self._session.usable

    async def notify(self) -> None:
        """Tell all who listen on the channel, this connection among them. Commits at once."""
        await self._session.execute(notification(self._channel), ())

    async def check(self) -> None:
        """Ask the server for an answer, by listening once more, which changes nothing."""
        await self._session.execute(f"LISTEN {self._channel}", ())

    async def close(self) -> None:
        """End the connection; never raises."""
        await self._session.close()


def notification(quoted_channel: str) -> str:
    """Return the statement that tells all who listen. It has no payload: what is new is in the tables."""
    return f"NOTIFY {quoted_channel}"


async def listen(
    settings: Settings, channel: str, heard: Callable[[], None], lost: Callable[[], None]
) -> PostgresListener:
    """Connect and listen: *heard* is called on the loop at every notification, *lost* when the connection ends.

    *channel* must be an identifier. Raises DatabaseError, with nothing left open.
    """
    session = await postgres.connect(settings)
    try:
        listener = PostgresListener(session, channel)
        await _attach(session, channel, heard, lost)
    except BaseException:
        await session.close()
        raise
    return listener


async def _attach(session: PostgresSession, channel: str, heard: Callable[[], None], lost: Callable[[], None]) -> None:
    connection = session._connection  # noqa: SLF001 -- notifications come to the driver's connection, not as an answer
    connection.add_termination_listener(lambda _: lost())
    try:
        await connection.add_listener(channel, lambda *_: heard())  # puts the name in quotes
    except Exception as error:
        raise postgres.meaning(error, f"LISTEN {channel}") from error
