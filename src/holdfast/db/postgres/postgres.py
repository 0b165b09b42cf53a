"""PostgreSQL through asyncpg: one session, and what its errors mean to us."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Any

from holdfast.db.postgres.trips import Trips
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
    import asyncpg
except ImportError:
    asyncpg = None

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.db.session import Row
    from holdfast.db.settings import Settings

_BROKEN = (ConnectionError, OSError, TimeoutError)

# A table changed under a prepared statement; the driver has dropped it, so the next try prepares it anew.
_STALE = () if asyncpg is None else (asyncpg.InvalidCachedStatementError, asyncpg.OutdatedSchemaCacheError)

_CONFLICTS = {"23505", "23P01"}
_RETRIES = {"40001", "40P01", "55P03", "53100", "58030"}  # 53100: the disk is full, until somebody makes room
_BROKEN_OFF = {"57014", "53200"}  # statement_timeout or pg_cancel_backend; no memory for it now
_UNKNOWN = "40003"
_NOT_PERMITTED = "42501"
_READ_ONLY = "25006"
_TOO_LONG = {"22001", "54000"}
_GONE = {"57P01", "57P02", "57P03", "57P05", "25P03"}


class PostgresSession:
    """One asyncpg connection."""

    def __init__(self, connection: Any, *, prepares: bool = False) -> None:
        self._connection = connection
        self._trips = Trips(connection)
        self._prepares = prepares
        self._opening = ""  # the BEGIN that is to go with the next statement
        self._in_transaction = False
        self._broken = False

    @property
    def usable(self) -> bool:
        return not (self._broken or self._trips.out_of_step or self._connection.is_closed())

    @property
    def in_transaction(self) -> bool:
        return bool(self._opening or self._connection.is_in_transaction())

    async def execute(self, sql: str, args: Sequence[Any]) -> int:
        try:
            status: str = await (self._open_with if self._opening else self._connection.execute)(sql, *args)
        except Exception as error:
            raise self._meaning(error, sql) from error
        return int(last) if (last := status.rpartition(" ")[2]).isdigit() else 0

    async def fetch(self, sql: str, args: Sequence[Any]) -> list[Row]:
        try:
            records = await (self._open_and_fetch if self._opening else self._connection.fetch)(sql, *args)
        except Exception as error:
            raise self._meaning(error, sql) from error
        return [dict(record) for record in records]

    async def begin(self, isolation: str | None = None, *, with_next: bool = False) -> None:
        text = "BEGIN" if isolation is None else f"BEGIN ISOLATION LEVEL {isolation}"
        if with_next and self._prepares:
            self._opening = text
            self._in_transaction = True
            return
        try:
            await self._connection.execute(text)
        except asyncio.CancelledError:
            self._broken = True  # whether BEGIN took place is not known: do not hand this connection on
            raise
        except Exception as error:
            raise self._lost(error) or self._meaning(error, text) from error
        self._in_transaction = True

    async def commit(self) -> None:
        if self._withdrawn():
            self._in_transaction = False
            return
        await self._commit()

    async def commit_after(self, sql: str, args: Sequence[Any]) -> bool:
        if self._withdrawn():
            self._in_transaction = False  # a lone statement commits by itself
            return await self.execute(sql, args) > 0
        if self._prepares:
            await self._commit(sql, args)
            return True
        if not await self.execute(sql, args):
            return False
        await self.commit()
        return True

    async def _commit(self, last: str = "", args: Sequence[Any] = ()) -> None:
        """Commit, in one trip with a *last* statement if there is one."""
        if not self.usable:
            raise ConnectionLost("The connection to PostgreSQL was lost before the commit; nothing was written.")
        try:
            status = await (self._trips.commit_after(last, args) if last else self._connection.execute("COMMIT"))
        except asyncio.CancelledError:
            self._broken = True
            raise
        except Exception as error:
            if self._lost(error) is not None:
                raise UnknownCommit(
                    "The connection to PostgreSQL broke during COMMIT: the writes may or may not be there."
                ) from error
            raise self._meaning(error, last or "COMMIT") from error
        finally:
            self._in_transaction = False
        if status == "ROLLBACK":  # PostgreSQL answers COMMIT so after a failed statement: nothing was written
            raise QueryFailed(
                "The transaction was rolled back, because one of its statements had failed before. Nothing was written."
            )

    async def _open_with(self, sql: str, *args: Any) -> str:
        """Send BEGIN and a statement at once; return the status of the latter. Without values it may be a script."""
        if args:
            return (await self._trips.begin_with(self._withdrawn(), sql, args))[1]
        await self._trips.make_ready()
        return str(await self._connection.execute(f"{self._withdrawn()};\n{sql}"))

    async def _open_and_fetch(self, sql: str, *args: Any) -> list[Any]:
        return (await self._trips.begin_with(self._withdrawn(), sql, args))[0]

    def _withdrawn(self) -> str:
        """Return the BEGIN that has not been sent yet, or nothing; it is not waited for any more."""
        opening, self._opening = self._opening, ""
        return opening

    async def rollback(self) -> None:
        self._in_transaction = False
        if self._withdrawn() or not self.usable:
            return
        try:
            await self._connection.execute("ROLLBACK")
        except asyncio.CancelledError:
            self._broken = True
            raise
        except Exception as error:
            if self._lost(error) is None:
                self._broken = True  # the transaction is still open: do not hand this connection on
                raise self._meaning(error, "ROLLBACK") from error

    async def close(self) -> None:
        if self._connection.is_closed():
            return
        try:
            await self._connection.close(timeout=2)
        except (*_BROKEN, asyncpg.PostgresError, asyncpg.InterfaceError):
            self._connection.terminate()

    def _lost(self, error: Exception) -> ConnectionLost | None:
        """Return the error to raise if *error* says that the connection is gone, and remember that it is."""
        state = getattr(error, "sqlstate", None) or ""
        gone = isinstance(error, _BROKEN) or state in _GONE or state.startswith("08") or self._connection.is_closed()
        if not gone:
            return None
        self._broken = True
        return ConnectionLost(f"The connection to PostgreSQL was lost before a commit; nothing was written: {error}")

    def _meaning(self, error: Exception, sql: str) -> DatabaseError:
        if getattr(error, "sqlstate", None) == _READ_ONLY:
            self._broken = True  # this server was demoted: the next connection may reach the one that took over
        lost = self._lost(error)
        if lost is not None:
            if self._in_transaction or is_read(sql):
                return lost
            return UnknownCommit(
                "The connection to PostgreSQL broke during a statement outside a transaction: it may or may not have "
                f"been carried out: {brief(sql)}"
            )
        return meaning(error, sql)


def meaning(error: Exception, sql: str) -> DatabaseError:
    """Classify an error that PostgreSQL or asyncpg raised for a statement on a living connection."""
    state = getattr(error, "sqlstate", None) or ""
    text = f"{error}: {brief(sql)}"
    if state in _CONFLICTS:
        detail = getattr(error, "constraint_name", None)
        return Conflict(f"A row with this key is already there ({detail or state}): {brief(sql)}")
    if state in _TOO_LONG:
        return TooLong(f"A value is longer than its column or index holds; it was refused, not cut: {text}")
    if state == _UNKNOWN:
        return UnknownCommit(f"PostgreSQL does not know whether the statement was carried out ({state}): {text}")
    again = _asks_again(error, state, text)
    if again is not None:
        return again
    refused = NotPermitted if state == _NOT_PERMITTED else QueryFailed
    return refused(f"PostgreSQL refused the statement{f' ({state})' if state else ''}: {text}")


def _asks_again(error: Exception, state: str, text: str) -> Retryable | None:
    if state == _READ_ONLY:
        return Retryable(
            f"PostgreSQL takes no writes here ({state}): this is a standby, or default_transaction_read_only is on. "
            f"Name the primary in the URL, or let the server take writes: {text}"
        )
    if state in _RETRIES or isinstance(error, _STALE):
        return Retryable(f"PostgreSQL asks to try again ({state}): {text}")
    if state in _BROKEN_OFF:
        return BrokenOff(f"PostgreSQL broke the statement off ({state}); nothing of it was written: {text}")
    return None


async def connect(settings: Settings) -> PostgresSession:
    """Open a session, or say in one sentence why not and what to do."""
    if asyncpg is None:
        raise DriverMissing("PostgreSQL needs the driver asyncpg: pip install 'holdfast[postgres]'.")
    url = settings.url
    where = url.safe
    try:
        connection = await _greet(settings)
    except asyncpg.InvalidAuthorizationSpecificationError as error:
        raise Unavailable(f"PostgreSQL refused the login at {where}: check the user and the password.") from error
    except asyncpg.InvalidCatalogNameError as error:
        raise Unavailable(
            f"PostgreSQL at {where} has no database {url.database!r}: create it, or run `holdfast migrate`."
        ) from error
    except asyncpg.TooManyConnectionsError as error:
        raise Unavailable(
            f"PostgreSQL at {where} has no free connection: lower pool_size, raise max_connections, "
            "or let the user have more of them."
        ) from error
    except asyncpg.PostgresError as error:
        raise Unavailable(f"PostgreSQL at {where} refused the connection: {error}") from error
    except TimeoutError as error:
        raise Unavailable(
            f"PostgreSQL at {where} did not answer within {settings.connect_timeout:g} s: check host, port, firewall."
        ) from error
    except OSError as error:
        raise Unavailable(f"PostgreSQL at {where} {_unreachable(error)}") from error
    except (asyncpg.InterfaceError, ValueError) as error:
        raise Unavailable(f"The options in the URL {where} do not suit PostgreSQL: {error}") from error
    # Where the driver has no such inner parts any more, each statement takes a trip of its own.
    inner = hasattr(connection, "_transport") and hasattr(connection, "_protocol")
    return PostgresSession(connection, prepares=settings.prepared and inner)


async def _greet(settings: Settings) -> Any:
    """Connect; if this is cancelled meanwhile, the connection is ended as soon as it is there.

    The driver itself, broken off before the server has said whether it speaks TLS, logs an error that nobody can catch.
    """
    greeting = asyncio.ensure_future(
        asyncpg.connect(
            dsn=settings.url.secret_text(),
            timeout=settings.connect_timeout,
            command_timeout=settings.command_timeout,
            statement_cache_size=settings.statement_cache_size,
            server_settings=settings.server_settings,
        )
    )
    try:
        return await asyncio.shield(greeting)
    except asyncio.CancelledError:
        greeting.add_done_callback(_hang_up)
        raise


def _hang_up(greeting: asyncio.Future[Any]) -> None:
    if not greeting.cancelled() and greeting.exception() is None:
        greeting.result().terminate()


def _unreachable(error: OSError) -> str:
    """Say why there is no connection. The driver has no class of its own for a server without TLS."""
    if "rejected SSL" in str(error):
        return "speaks no TLS, and the URL asks for it with sslmode: set TLS up there, or leave sslmode out."
    if isinstance(error, ssl.SSLError):
        return f"does not agree with us on TLS: {error}. Check sslmode and sslrootcert in the URL."
    return "cannot be reached: check that it runs and listens there."
