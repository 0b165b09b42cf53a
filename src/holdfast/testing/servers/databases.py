"""Fresh databases on a server that is known by its URL alone.

All calls block, and may be made from any thread, with an event loop running or not. Each opens its own
connection: nothing is shared, so processes that know the same URL (the workers of one test run, or two runs)
do not disturb each other.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import unquote, urlsplit, urlunsplit

from holdfast.errors import ConfigurationError, InvalidURL, Unavailable

if TYPE_CHECKING:
    from collections.abc import Coroutine

_T = TypeVar("_T")
_SECONDS = 5.0
_STATEMENT_SECONDS = 60.0
_REDIS_CLAIM_SECONDS = 24 * 3600


class Databases(Protocol):
    """What can be done with the databases of one kind of server."""

    def ping(self, url: str) -> None:
        """Log in and ask something; raise ``Unavailable`` if that cannot be done."""

    def create(self, url: str) -> str:
        """Make an empty database that nobody else has, and return its URL."""

    def drop(self, url: str) -> None:
        """Remove the database that *url* names, whoever is still connected to it."""


class PostgresDatabases:
    """Databases of a PostgreSQL server."""

    def ping(self, url: str) -> None:
        _in_own_loop(self._run(url, "SELECT 1"))

    def create(self, url: str) -> str:
        name = _fresh_name()
        _in_own_loop(self._run(url, f"CREATE DATABASE {name}"))
        return with_database(url, name)

    def drop(self, url: str) -> None:
        statement = f"DROP DATABASE IF EXISTS {_own_name(url)} WITH (FORCE)"
        _in_own_loop(self._run(with_database(url, "postgres"), statement))

    async def _run(self, url: str, statement: str) -> None:
        import asyncpg  # noqa: PLC0415 -- only who asks for PostgreSQL needs its driver

        try:
            connection = await asyncpg.connect(url, timeout=_SECONDS)
            try:
                # DROP DATABASE waits for a checkpoint and for every other backend to let the files go.
                await connection.execute(statement, timeout=_STATEMENT_SECONDS)
            finally:
                await connection.close(timeout=_SECONDS)
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError) as error:
            raise _unavailable(url, error) from error


class MariaDBDatabases:
    """Databases of a MariaDB or MySQL server."""

    def ping(self, url: str) -> None:
        _in_own_loop(self._run(url, "SELECT 1"))

    def create(self, url: str) -> str:
        name = _fresh_name()
        _in_own_loop(self._run(url, f"CREATE DATABASE {name} CHARACTER SET utf8mb4"))
        return with_database(url, name)

    def drop(self, url: str) -> None:
        _in_own_loop(self._drop(with_database(url, "information_schema"), _own_name(url)))

    async def _drop(self, url: str, name: str) -> None:
        # A transaction that a test has left open would hold DROP DATABASE up for as long as its connection
        # lives. KILL of a connection that has gone in the meantime is an error that does not matter.
        for (connection,) in await self._run(url, f"SELECT id FROM processlist WHERE db = '{name}'"):
            try:
                await self._run(url, f"KILL {int(connection)}")
            except Unavailable:
                continue
        await self._run(url, f"DROP DATABASE IF EXISTS {name}")

    async def _run(self, url: str, statement: str) -> list[tuple[Any, ...]]:
        import asyncmy  # noqa: PLC0415 -- only who asks for MariaDB needs its driver
        from asyncmy.errors import MySQLError  # noqa: PLC0415

        parts = urlsplit(url)
        try:
            connection = await asyncmy.connect(
                host=parts.hostname,
                port=parts.port or 3306,
                user=unquote(parts.username or ""),
                password=unquote(parts.password or ""),
                database=parts.path.lstrip("/") or None,
                autocommit=True,
                connect_timeout=_SECONDS,
            )
            try:
                async with connection.cursor() as cursor:
                    await cursor.execute(statement)
                    return list(await cursor.fetchall())
            finally:
                await connection.ensure_closed()
        except (MySQLError, OSError, TimeoutError) as error:
            raise _unavailable(url, error) from error


class RedisDatabases:
    """Numbered databases of a Redis server; database 0 keeps the claims on the others."""

    def ping(self, url: str) -> None:
        self._run(url, "PING")

    def create(self, url: str) -> str:
        """Claim the first number that is empty and that nobody has claimed."""
        directory = with_database(url, "0")
        _, amount = self._run(directory, "CONFIG", "GET", "databases")
        for number in range(1, int(amount)):
            fresh = with_database(url, str(number))
            if self._run(directory, "SET", self._claim(number), "1", "NX", "EX", _REDIS_CLAIM_SECONDS):
                if self._run(fresh, "DBSIZE") == 0:
                    return fresh
                self._run(directory, "DEL", self._claim(number))
        raise ConfigurationError(f"All {int(amount) - 1} numbered databases of {_place(url)} are in use; empty some.")

    def drop(self, url: str) -> None:
        """Empty the database and give its number back; one that ``create`` has not claimed stays."""
        number, directory = int(urlsplit(url).path.lstrip("/") or 0), with_database(url, "0")
        if not self._run(directory, "EXISTS", self._claim(number)):
            raise InvalidURL(f"Redis database {number} was not made for a test; it is not dropped.")
        self._run(url, "FLUSHDB")
        self._run(directory, "DEL", self._claim(number))

    def _claim(self, number: int) -> str:
        return f"holdfast:testing:database:{number}"

    def _run(self, url: str, *command: str | int) -> Any:
        import redis  # noqa: PLC0415 -- only who asks for Redis needs its driver
        from redis.backoff import NoBackoff  # noqa: PLC0415
        from redis.retry import Retry  # noqa: PLC0415

        once = Retry(NoBackoff(), 0)
        client = redis.Redis.from_url(url, decode_responses=True, socket_timeout=_SECONDS, protocol=2, retry=once)
        try:
            return client.execute_command(*command)  # type: ignore[no-untyped-call]
        except (redis.RedisError, OSError) as error:
            raise _unavailable(url, error) from error
        finally:
            client.close()


_BY_SCHEME: dict[str, Databases] = {
    "postgresql": PostgresDatabases(),
    "mysql": MariaDBDatabases(),
    "redis": RedisDatabases(),
}


def databases_of(url: str) -> Databases:
    """Return what can be done with the databases of the server that *url* names."""
    scheme = urlsplit(url).scheme
    if scheme not in _BY_SCHEME:
        raise InvalidURL(f"A test server's URL begins with one of {', '.join(_BY_SCHEME)}, not with {scheme!r}.")
    return _BY_SCHEME[scheme]


def with_database(url: str, name: str) -> str:
    """Return *url* with *name* in place of its database."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


def _fresh_name() -> str:
    return f"hf_{secrets.token_hex(8)}"


def _own_name(url: str) -> str:
    name = urlsplit(url).path.lstrip("/")
    if not re.fullmatch(r"hf_[0-9a-f]{16}", name):
        raise InvalidURL(f"{name!r} is not a database that was made for a test; it is not dropped.")
    return name


def _place(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme} server at {parts.hostname}:{parts.port}"


def _unavailable(url: str, error: Exception) -> Unavailable:
    return Unavailable(f"The {_place(url)} did not do as asked: {type(error).__name__}: {error}")


def _in_own_loop(work: Coroutine[Any, Any, _T]) -> _T:
    """Run *work* to its end on a loop in a thread of its own: the caller's thread may have a loop running."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()
