"""A connection to Redis for all tasks of a loop: what they ask while others wait for answers goes in one packet."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    Asked = deque[tuple[bytes, asyncio.Future[Any]]]

_MOST = 64  # commands in a packet
_USUAL = 1024  # bytes of a part: what says how long it is, is laid out ahead
_SIZES = [b"\r\n$%d\r\n" % size for size in range(_USUAL)]
_BYTES = 1 << 20  # a packet that has as many takes no more: it must be sent before the driver's patience ends


class Packets:
    """Sends what tasks ask, and hands each its answer. *pool* is the driver's: the connection is made as it says.

    What was sent is carried out, whatever becomes of the task that asked. If the connection is lost, so are all answers
    that it still owes; what was not sent yet goes over the next one.
    """

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._connection: Any = None
        self._asked: Asked = deque()
        self._sending: asyncio.Task[None] | None = None

    def ask(self, command: bytes) -> asyncio.Future[Any]:
        """Return the answer to come; it raises what the driver raises."""
        answer = asyncio.get_running_loop().create_future()
        self._asked.append((command, answer))
        if self._sending is None:
            self._sending = asyncio.create_task(self._send_all())
        return answer

    async def close(self) -> None:
        """End the connection; to those who wait for an answer it is lost."""
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.wait([self._sending])
        _lose(self._asked, ConnectionAbortedError())
        if self._connection is not None:
            await self._connection.disconnect()

    async def _send_all(self) -> None:
        try:
            await asyncio.sleep(0)  # the loop hears whether the server has ended the connection, and others ask, too
            while self._asked:
                await self._exchange(_first(self._asked))
        finally:
            self._sending = None

    async def _exchange(self, owed: Asked) -> None:
        """Send a packet and read all its answers."""
        try:
            await self._connect()
            await self._connection.send_packed_command([command for command, _ in owed], check_health=False)
            while owed:
                told = await self._answer()
                _tell(owed.popleft()[1], told)
        except asyncio.CancelledError:
            _lose(owed, ConnectionAbortedError())
            raise
        except Exception as error:  # noqa: BLE001 -- told to whoever asked
            _lose(owed, error)

    async def _connect(self) -> None:
        connection = self._connection = self._connection or self._pool.make_connection()
        has_heard = getattr(connection, "can_read", connection.can_read_destructive)  # its name before version 8
        if connection.is_connected and await has_heard():  # nothing comes unasked but the end
            await connection.disconnect(nowait=True)
        if not connection.is_connected:
            await connection.connect()

    async def _answer(self) -> Any:
        """Return the next answer, or the error that the server answers with; raise if none comes."""
        from redis.exceptions import ResponseError  # noqa: PLC0415 -- an extra

        try:
            return await self._connection.read_response()
        except ResponseError as error:
            return error


def _first(asked: Asked) -> Asked:
    """Take out of *asked* what goes into the next packet."""
    some: Asked = deque()
    size = 0
    while asked and len(some) < _MOST and size < _BYTES:
        some.append(asked.popleft())
        size += len(some[-1][0])
    return some


def _lose(owed: Asked, error: Exception) -> None:
    while owed:
        _tell(owed.popleft()[1], error)


def _tell(answer: asyncio.Future[Any], told: Any) -> None:
    if answer.done():  # its task has been cancelled
        return
    if isinstance(told, Exception):
        answer.set_exception(told)
    else:
        answer.set_result(told)


def packed(command: Sequence[Any]) -> bytes:
    """Return a command as it goes over the wire. The driver's own way looks at each part much longer."""
    parts = [b"*%d" % len(command)]
    for each in command:
        value = each if type(each) is bytes else str(each).encode()
        size = len(value)
        parts.append(_SIZES[size] if size < _USUAL else b"\r\n$%d\r\n" % size)
        parts.append(value)
    parts.append(b"\r\n")
    return b"".join(parts)


__all__ = ["Packets", "packed"]
