"""Hearing a server without a loop: for a thread that waits for one short answer, asyncio's rounds take the longest."""

from __future__ import annotations

import asyncio
import os
import select
from typing import Self

_PATIENCE = 20  # milliseconds: beside an answer that takes longer, the rounds of a loop are nothing
_MOST = 65_536  # bytes


class Line:
    """The socket of *transport*, which is asyncio's own, while *loop* rests and so nobody else reads it.

    Only what comes as it should is heard here. All else is left to the loop, which finds it as if nobody had looked:
    what is still to be sent, the end of the connection, its errors, TLS, a protocol that wants to hear nothing now.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._socket: int = transport.get_extra_info("socket").fileno()
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        self._something = [(self._socket, select.POLLIN)]

    @classmethod
    def to(cls, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> Self | None:
        """Return the line of a new connection, or None if it can have none: it has TLS, or this is Windows."""
        if transport.get_extra_info("sslcontext") is not None or not hasattr(select, "poll"):
            return None
        return cls(transport, loop)

    @property
    def is_open(self) -> bool:
        return not self._transport.is_closing()

    def hear(self) -> bool:
        """Wait a short while and pass on what comes; False if nothing did, or the loop is to look after it."""
        transport = self._transport
        protocol = transport.get_protocol()  # of another kind once TLS has begun
        if not (isinstance(protocol, asyncio.Protocol) and transport.is_reading()) or transport.get_write_buffer_size():
            return False
        if self._poll.poll(_PATIENCE) != self._something:
            return False
        try:
            data = os.read(self._socket, _MOST)
        except OSError:
            return False
        if not data:
            return False
        try:
            protocol.data_received(data)
        except Exception as error:  # noqa: BLE001 -- to asyncio's transports, too, the connection is then lost
            about = {"message": "A protocol failed.", "exception": error, "protocol": protocol, "transport": transport}
            self._loop.call_exception_handler(about)
            transport.abort()
        return True
