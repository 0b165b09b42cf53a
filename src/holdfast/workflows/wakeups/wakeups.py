"""Hints from process to process that there is something new in the database.

A hint is never needed: whoever waits polls, and finds everything without one, only later. So a hint may be lost, come
twice, or come for nothing, and nothing here raises once it has begun.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from holdfast.db.url import DialectName
from holdfast.workflows.wakeups.sqlite import SqliteWakeUps

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.db.manager import ConnectionManager
    from holdfast.model.world import World


class WakeUps(Protocol):
    """One process's part in the hints of a database; made by ``wakeups_for``, lives on the loop of its manager."""

    @property
    def alive(self) -> bool:
        """Whether a hint from another process would be heard now, as far as is known: then polls may be rare.

        When it becomes so, ``wake`` is called: what others told before has not been heard.
        """

    async def start(self) -> None:
        """Begin to listen, without waiting for the database. The manager must be open, and stay so until ``stop``."""

    async def stop(self) -> None:
        """Listen no more, after a last try to tell what was to be told; a second call changes nothing."""

    def tell(self) -> None:
        """Say that something new is committed that other processes may wait for.

        They are told within milliseconds, many calls at once; to be called on the loop, after the commit. Does no I/O.
        """


class NoWakeUps:
    """Nobody is told and nothing is heard: MariaDB and MySQL, SQLite in memory, and whoever does not want hints."""

    alive = False

    async def start(self) -> None:
        """Do nothing."""

    async def stop(self) -> None:
        """Do nothing."""

    def tell(self) -> None:
        """Do nothing."""


def wakeups_for(
    manager: ConnectionManager,
    schema: str,
    world: World,
    wake: Callable[[], None],
    *,
    enabled: bool,
    listens: bool = True,
) -> WakeUps:
    """Choose by the database. *wake* is called on the loop for every hint that is heard, own ones among them.

    With *listens* false others are told, and nothing is heard: for a client that only hands in work. The same goes for
    PostgreSQL behind a pooler (*prepared* or *pooled* is false on the manager), where LISTEN would be lost on a
    connection that is handed around.
    """
    settings = manager.settings
    if enabled and settings.url.dialect is DialectName.POSTGRES:
        from holdfast.workflows.wakeups.postgres import PostgresWakeUps  # noqa: PLC0415 -- its driver may be missing

        return PostgresWakeUps(manager, schema, world, wake, listens=listens and settings.prepared and settings.pooled)
    if enabled and listens and settings.url.path is not None:
        return SqliteWakeUps(settings.url.path, wake)
    return NoWakeUps()


__all__ = ["NoWakeUps", "WakeUps", "wakeups_for"]
