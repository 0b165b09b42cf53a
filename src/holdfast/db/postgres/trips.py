"""Prepared statements that travel ahead of another one, in the same trip to PostgreSQL.

asyncpg sends one statement at a time and waits for its answer. The server takes any number of them before it is asked
to answer, skips the rest after one that fails, and tells that error. So BEGIN can go ahead of the first statement of a
transaction, and the last statement ahead of COMMIT. Both are one packet: a packet wakes the server, which takes as long
as the rest of a short statement. The driver passes over the answers of what went ahead: it must return no rows, and how
many it touched is not heard of.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_COMMIT = "COMMIT"
_MOST = 100
_SHORT = struct.Struct("!h").pack
_LONG = struct.Struct("!i").pack
_NULL = _LONG(-1)
_EXECUTE = b"E" + _LONG(9) + b"\0" + _LONG(0)  # the unnamed portal, all rows
_STANDS = ("23", "40")  # classes of errors of a row or of a conflict: prepared statements are as good as before


class Trips:
    """The statements that one connection has prepared for this purpose.

    *out_of_step* says that something went ahead and the server was not heard of since: such a connection is of no use.
    """

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._ahead: _Ahead | None = None
        self._commit: Any = None
        self._prepared: OrderedDict[str, Any] = OrderedDict()
        self._names: dict[str, str] = {}
        self._made = 0
        self.out_of_step = False

    async def make_ready(self) -> None:
        """Prepare COMMIT, before the transaction.

        While a statement is prepared, and not yet run, the server does not count the session as idle, and would not
        end it if this process were stopped just then: that must not happen while it holds rows that others want.
        """
        if self._commit is None:
            self._commit = await self._connection.prepare(_COMMIT)

    async def begin_with(self, opening: str, sql: str, args: Sequence[Any]) -> tuple[list[Any], str]:
        """Send *opening*, which begins a transaction, and its first statement; return the latter's rows and status."""
        statement = self._prepared.get(sql)
        if statement is not None:
            self._prepared.move_to_end(sql)
            return await self._send(self._going(opening, ()), statement, args)
        await self.make_ready()
        # Preparing looks at tables, and a transaction that has done so cannot choose its isolation level.
        self.out_of_step = True
        await self._connection.execute(opening)
        self.out_of_step = False
        statement = self._prepared[sql] = await self._connection.prepare(sql)
        if len(self._prepared) > _MOST:
            self._prepared.popitem(last=False)
        return await statement.fetch(*args), statement.get_statusmsg()

    async def commit_after(self, sql: str, args: Sequence[str | int | None]) -> str:
        """Send the last statement of a transaction and COMMIT; return the status of the latter."""
        await self.make_ready()
        return (await self._send(self._going(sql, args), self._commit, ()))[1]

    def _going(self, sql: str, args: Sequence[str | int | None]) -> bytes:
        """Return the messages that carry a statement out; they prepare it, too, if it is new to this connection."""
        name, parsed = self._names.get(sql), b""
        if name is None:
            self._made += 1
            name = self._names[sql] = f"holdfast_{self._made}"
            parsed = _parsed(name, sql)
        return parsed + _bound(name, args)

    async def _send(self, ahead: bytes, statement: Any, args: Sequence[Any]) -> tuple[list[Any], str]:
        """Send *ahead* and a prepared statement; return the latter's rows and status."""
        if self._ahead is None:
            self._ahead = _Ahead(self._connection._transport)  # noqa: SLF001 -- the driver has no other door
        self._ahead.send(ahead)
        request = self._connection._protocol.bind_execute  # noqa: SLF001 -- what fetch() ends in, five calls further
        self.out_of_step = True
        try:
            rows, status, _ = await request(statement._state, args, "", 0, True, None)  # noqa: SLF001 -- the same
        except Exception as error:
            state = getattr(error, "sqlstate", None) or ""
            self.out_of_step = not state  # it was not the server that has answered
            if not state.startswith(_STANDS):
                self._names.clear()  # a table may have changed under a statement, or it was never prepared
                self._prepared.clear()
                self._commit = None
            raise
        self.out_of_step = False
        return rows, (status or b"").decode()


class _Ahead:
    """Has messages sent in front of what the driver writes next, with it if the transport can be told to."""

    def __init__(self, transport: Any) -> None:
        self._messages = b""
        self._write = transport.write
        self.send: Callable[[bytes], None] = self._keep
        try:
            transport.write = self._write_together
        except AttributeError:  # it is not Python's own
            self.send = transport.write

    def _keep(self, messages: bytes) -> None:
        self._messages = messages

    def _write_together(self, data: bytes) -> None:
        messages, self._messages = self._messages, b""
        self._write(messages + data if messages else data)


def _parsed(name: str, sql: str) -> bytes:
    """Return the message Parse."""
    return _message(b"P", name.encode() + b"\0" + sql.encode() + b"\0" + _SHORT(0))


def _bound(name: str, args: Sequence[str | int | None]) -> bytes:
    """Return the messages Bind and Execute for a prepared statement with values as text."""
    parts = [b"\0", name.encode(), b"\0", _SHORT(0), _SHORT(len(args))]
    for value in args:
        if value is None:
            parts.append(_NULL)
        else:
            text = str(value).encode()
            parts += (_LONG(len(text)), text)
    parts.append(_SHORT(0))
    return _message(b"B", b"".join(parts)) + _EXECUTE


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + _LONG(len(body) + 4) + body
