"""MariaDB and MySQL through asyncmy: one session, and what its errors mean to us.

A session runs at READ COMMITTED in autocommit with strict SQL mode, in UTC, and counts found rows, whatever the server
has set for others. After any error inside a transaction the whole of it must be rolled back: after a lock timeout the
server would go on with the rest, after a deadlock it would commit the rest alone.

The patience with a statement is ours, not the driver's: its own is ``asyncio.wait_for``, which on Python 3.11 loses a
cancellation that comes with the answer. It connects with nothing else, and so in a task of its own.
"""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from holdfast.db.mysql.tls import TLS
from holdfast.db.queries.placeholders import brief, is_read
from holdfast.errors import (
    BrokenOff,
    Conflict,
    ConnectionLost,
    DatabaseError,
    DriverMissing,
    NotPermitted,
    QueryFailed,
    Retryable,
    TooLong,
    Unavailable,
    UnknownCommit,
)

try:
    import asyncmy
    from asyncmy.constants import CLIENT
    from asyncmy.errors import Error as DriverError
except ImportError:
    asyncmy = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.db.session import Row
    from holdfast.db.settings import Settings

_BROKEN = (ConnectionError, OSError, TimeoutError, RuntimeError)

_CONFLICTS = {1062, 1586}
_RETRIES = {1205, 1213, 1020, 3572, 1021, 1114}  # 1021, 1114: the disk is full, until there is room
_BROKEN_OFF = {1317, 1969, 3024, 1037, 1041, 1206}  # KILL QUERY, max_statement_time; no memory for it now
_TOO_LONG = {1406, 1071, 1153, 1301}
_GONE = {1053, 1077, 1079, 1080, 1152, 1927, 2006, 2013, 2014, 2055, 4031}
_NOT_PERMITTED = {1142, 1143, 1370}
_REFUSED = {1044, 1045, 1698, 3159}
_NO_DATABASE = 1049
_TOO_MANY = {1040, 1203, 1226}
_READ_ONLY = {1290, 1792, 1836}

# What a server may have otherwise for everybody: rows would be cut, statements refused, transactions chained.
_SETTINGS = (
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', time_zone = '+00:00', "
    "sql_select_limit = 18446744073709551615, sql_safe_updates = 0, sql_big_selects = 1, completion_type = 0, "
    "foreign_key_checks = 1, unique_checks = 1"
)


class MySQLSession:
    """One asyncmy connection."""

    def __init__(self, connection: Any, patience: float | None = None) -> None:
        self._connection = connection
        self._patience = patience
        self._in_transaction = False
        self._broken = False
        self._largest: float = float("inf")

    async def settle_in(self, longest_pause: float | None) -> None:
        """Set what every session has set, and learn how large a statement the server takes.

        With *longest_pause* the server ends a session that leaves a transaction open and says nothing for so long
        (MariaDB only), and a row is waited for half as long: the client must hear of that before its own patience ends.
        Both count in whole seconds.
        """
        await self.execute(_SETTINGS, ())
        await self.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", ())
        [answer] = await self.fetch("SELECT @@max_allowed_packet AS largest, VERSION() AS version", ())
        self._largest = int(answer["largest"])
        if longest_pause is not None:
            pause = max(1, round(longest_pause))
            await self.execute(f"SET SESSION innodb_lock_wait_timeout = {max(1, pause // 2)}", ())
            if "MariaDB" in answer["version"]:
                await self.execute(f"SET SESSION idle_transaction_timeout = {pause}", ())

    @property
    def usable(self) -> bool:
        connection = self._connection
        return not self._broken and connection.connected and not connection._stream_broken  # noqa: SLF001 -- the only way to see a closed peer without a round trip

    @property
    def in_transaction(self) -> bool:
        return bool(self._connection.get_transaction_status())

    async def execute(self, sql: str, args: Sequence[Any]) -> int:
        cursor = await self._run(sql, args)
        return max(int(cursor.rowcount), 0)

    async def fetch(self, sql: str, args: Sequence[Any]) -> list[Row]:
        cursor = await self._run(sql, args)
        if cursor.description is None:
            return []
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in await cursor.fetchall()]

    async def begin(self, isolation: str | None = None, *, with_next: bool = False) -> None:  # noqa: ARG002 -- the driver takes one statement at a time
        if isolation is not None:
            await self._run(f"SET TRANSACTION ISOLATION LEVEL {isolation}", (), sends_commit=False)
        await self._run("START TRANSACTION", (), sends_commit=False)
        self._in_transaction = True

    async def commit(self) -> None:
        if not self.usable:
            raise ConnectionLost("The connection to MariaDB/MySQL was lost before the commit; nothing was written.")
        try:
            async with asyncio.timeout(self._patience):
                await self._connection.commit()
        except asyncio.CancelledError:
            self._broken = True
            raise
        except Exception as error:
            if self._lost(error) is not None:
                raise UnknownCommit(
                    "The connection to MariaDB/MySQL broke during COMMIT: the writes may or may not be there."
                ) from error
            raise meaning(error, "COMMIT") from error
        finally:
            self._in_transaction = False

    async def commit_after(self, sql: str, args: Sequence[Any]) -> bool:
        if not await self.execute(sql, args):
            return False
        await self.commit()
        return True

    async def rollback(self) -> None:
        self._in_transaction = False
        if not self.usable:
            return
        try:
            async with asyncio.timeout(self._patience):
                await self._connection.rollback()
        except asyncio.CancelledError:
            self._broken = True
            raise
        except Exception as error:
            if self._lost(error) is None:
                self._broken = True  # the transaction is still open: do not hand this connection on
                raise meaning(error, "ROLLBACK") from error

    async def close(self) -> None:
        if self._broken:
            self._connection.close()
            return
        try:
            async with asyncio.timeout(2):
                await self._connection.ensure_closed()
        except (*_BROKEN, DriverError):
            self._connection.close()

    async def _run(self, sql: str, args: Sequence[Any], *, sends_commit: bool = True) -> Any:
        cursor = self._connection.cursor()
        try:
            text = cursor.mogrify(sql, [_outgoing(value) for value in args])
        except Exception as error:
            raise QueryFailed(f"A value does not fit MariaDB/MySQL ({error}): {brief(sql)}") from error
        self._refuse_too_large(text, sql)
        try:
            async with asyncio.timeout(self._patience):
                await cursor.execute(text)
        except asyncio.CancelledError:
            self._broken = True  # the reply is still on its way: this conversation cannot be picked up again
            raise
        except Exception as error:
            lost = self._lost(error)
            if lost is None:
                self._broken = _number(error) in _READ_ONLY  # demoted: the next connection may reach its successor
                raise meaning(error, sql) from error
            if self._in_transaction or not sends_commit or is_read(sql):
                raise lost from error
            raise UnknownCommit(
                "The connection to MariaDB/MySQL broke during a statement outside a transaction: it may or may not "
                f"have been carried out: {brief(sql)}"
            ) from error
        return cursor

    def _refuse_too_large(self, text: str, sql: str) -> None:
        """Refuse here what the server would answer by ending the connection, so that it is known not to be written."""
        if len(text) * 4 < self._largest or len(text.encode(errors="surrogateescape")) + 1 < self._largest:
            return
        raise TooLong(
            f"The statement with its values is larger than the server's max_allowed_packet ({self._largest} bytes); "
            f"it was not sent. Raise that setting, or store less in one go: {brief(sql)}"
        )

    def _lost(self, error: Exception) -> ConnectionLost | None:
        """Return the error to raise if *error* says that the connection is gone, and remember that it is."""
        gone = isinstance(error, _BROKEN) or _number(error) in _GONE or not self._connection.connected
        if not gone:
            return None
        self._broken = True
        return ConnectionLost(f"The connection to MariaDB/MySQL was lost before a commit; nothing was written: {error}")


def meaning(error: Exception, sql: str) -> DatabaseError:
    """Classify an error that the server or asyncmy raised for a statement on a living connection."""
    number = _number(error)
    text = f"{error}: {brief(sql)}"
    if number in _CONFLICTS:
        return Conflict(f"A row with this key is already there ({number}): {brief(sql)}")
    if number in _TOO_LONG:
        return TooLong(f"A value is longer than its column or packet holds; it was refused, not cut: {text}")
    if number in _READ_ONLY:
        return Retryable(
            f"MariaDB/MySQL takes no writes here ({number}): this is a replica, or read_only or tx_read_only is on. "
            f"Name the primary in the URL, or let the server take writes: {text}"
        )
    if number in _RETRIES:
        return Retryable(f"MariaDB/MySQL asks to try again ({number}): {text}")
    if number in _BROKEN_OFF:
        return BrokenOff(f"MariaDB/MySQL broke the statement off ({number}); nothing of it was written: {text}")
    refused = NotPermitted if number in _NOT_PERMITTED else QueryFailed
    return refused(f"MariaDB/MySQL refused the statement{f' ({number})' if number else ''}: {text}")


def _number(error: Exception) -> int:
    first = error.args[0] if error.args else 0
    return first if isinstance(first, int) else 0


def _outgoing(value: Any) -> Any:
    # The driver drops the offset of a datetime; the session is in UTC, so that is where it must be.
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    return value


async def connect(settings: Settings) -> MySQLSession:
    """Open a session, or say in one sentence why not and what to do."""
    if asyncmy is None:
        raise DriverMissing("MariaDB/MySQL needs the driver asyncmy: pip install 'holdfast[mysql]'.")
    where = settings.url.safe
    try:
        tls = TLS.of(settings.url.options).context()
    except OSError as error:
        raise Unavailable(f"The certificates that the URL {where} names cannot be read: {error}") from error
    try:
        async with asyncio.timeout(settings.connect_timeout):  # the driver's own ends before the greeting
            return await _settled_in(MySQLSession(await _greet(settings, tls), settings.command_timeout), settings)
    except TimeoutError as error:
        raise Unavailable(
            f"MariaDB/MySQL at {where} did not answer within {settings.connect_timeout:g} s: "
            "check host, port and firewall."
        ) from error
    except (DriverError, DatabaseError, *_BROKEN) as error:
        raise _unavailable(error, where, settings.url.database) from error


async def _greet(settings: Settings, tls: ssl.SSLContext | None) -> Any:
    greeting = asyncio.ensure_future(_connected(settings, tls))
    try:
        return await asyncio.shield(greeting)
    except asyncio.CancelledError:
        greeting.cancel()  # which the driver may not hear
        greeting.add_done_callback(_hang_up)
        raise


def _hang_up(greeting: asyncio.Future[Any]) -> None:
    if not greeting.cancelled() and greeting.exception() is None:
        greeting.result().close()


async def _connected(settings: Settings, tls: ssl.SSLContext | None) -> Any:
    url = settings.url
    return await asyncmy.connect(
        host=url.host or "127.0.0.1",
        port=url.port or 3306,
        user=url.user or "",
        password=(url.password or "").encode(),  # the driver would take text for Latin-1
        database=url.database or None,
        unix_socket=url.socket,
        ssl=tls,
        charset="utf8mb4",
        client_flag=CLIENT.FOUND_ROWS,
        autocommit=True,
        connect_timeout=max(1, round(settings.connect_timeout)),
        program_name=settings.application_name,
    )


async def _settled_in(session: MySQLSession, settings: Settings) -> MySQLSession:
    try:
        await session.settle_in(settings.longest_pause)
    except BaseException:
        await session.close()
        raise
    return session


def _unavailable(error: Exception, where: str, database: str | None) -> Unavailable:
    number = _number(error)
    if number in _REFUSED:
        return Unavailable(
            f"MariaDB/MySQL refused the login at {where}: check the user and the password, and whether it takes nobody "
            "without TLS (ssl-mode=REQUIRED in the URL)."
        )
    if number == _NO_DATABASE:
        return Unavailable(f"MariaDB/MySQL at {where} has no database {database!r}: create it first.")
    if number in _TOO_MANY:
        return Unavailable(
            f"MariaDB/MySQL at {where} has no free connection: lower pool_size, raise max_connections, "
            "or let the user have more of them."
        )
    if isinstance(error.__cause__ or error, ssl.SSLError):
        return Unavailable(
            f"MariaDB/MySQL at {where} does not agree with us on TLS: {error.__cause__ or error}. Check that it speaks "
            "TLS, and ssl-mode and ssl-ca in the URL."
        )
    return Unavailable(f"MariaDB/MySQL at {where} cannot be reached: check that it runs and listens there.")
