"""Creates a PostgreSQL database that is not there, also when several processes want to at once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from holdfast.core.backoff import backoff
from holdfast.db.queries.queries import Queries
from holdfast.db.url import DialectName
from holdfast.errors import Conflict, QueryFailed, Unavailable

if TYPE_CHECKING:
    from holdfast.db.manager import ConnectionManager
    from holdfast.db.session import Session
    from holdfast.db.settings import Settings

_NO_SUCH_DATABASE = "3D000"
_IN_USE = "55006"
_ATTEMPTS = 8

# Databases that every server has; one of them must be entered to create another.
_ENTRANCES = ("postgres", "template1")


async def open_or_create(manager: ConnectionManager) -> None:
    """Open *manager*; if PostgreSQL answers that there is no such database, create it and open again.

    Raises Unavailable, with the remedy, if this user may not create it.
    """
    try:
        await manager.initialize()
    except Unavailable as error:
        if _state(error) != _NO_SUCH_DATABASE:
            raise
        await _create(manager)
        await manager.initialize()


async def _create(manager: ConnectionManager) -> None:
    name = manager.url.database or ""
    quoted = '"' + name.replace('"', '""') + '"'
    queries = Queries.load(DialectName.POSTGRES, fragments={"database": quoted})
    session = await _enter(manager.settings)
    try:
        for attempt in range(1, _ATTEMPTS + 1):
            refusal = await _try(session, queries, name)
            if refusal is None:
                return
            if _state(refusal) != _IN_USE or attempt == _ATTEMPTS:
                raise Unavailable(
                    f"PostgreSQL has no database {name!r} and does not let this user create it: have it "
                    f"created and try again. {refusal}"
                ) from refusal
            # Somebody is connected to the template, perhaps another process like us.
            await manager.world.sleep(backoff(attempt, base=0.05, cap=1.0, draw=manager.world.random.random()))
    finally:
        await session.close()


async def _try(session: Session, queries: Queries, name: str) -> QueryFailed | Conflict | None:
    """Create the database; return why not, or None if it is there now, whoever created it."""
    try:
        for text, values in queries["database_create"].bind({}):
            await session.execute(text, values)
    except (Conflict, QueryFailed) as refusal:
        [(text, values)] = queries["database_present"].bind({"name": name})
        if not await session.fetch(text, values):
            return refusal
    return None


async def _enter(settings: Settings) -> Session:
    from holdfast.db.postgres import postgres  # noqa: PLC0415 -- its driver takes its time, and programs on SQLite need none

    for entrance in _ENTRANCES[:-1]:
        try:
            return await postgres.connect(replace(settings, url=settings.url.with_database(entrance)))
        except Unavailable:
            continue
    return await postgres.connect(replace(settings, url=settings.url.with_database(_ENTRANCES[-1])))


def _state(error: Exception) -> str | None:
    return getattr(error.__cause__, "sqlstate", None)


__all__ = ["open_or_create"]
