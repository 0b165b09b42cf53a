"""A TCP proxy that a test puts before a database server, to cut conversations at a place of its choice.

It knows of the traffic only its bytes: a *trigger* in what the client sends. Encrypted traffic shows none.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self

_CHUNK = 1 << 16


class Cut(StrEnum):
    """When to end a conversation in which the trigger was seen."""

    BEFORE = "before the server gets it"
    DURING = "as soon as the server has it"
    AFTER = "when the server has answered, with the answer dropped"


class Proxy:
    """Listens on a free port of 127.0.0.1 and passes everything on to the server at *host* and *port*."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._trigger = b""
        self._cut: Cut | None = None
        self._skip = 0
        self._open: set[_Conversation] = set()
        self.refusing = False
        self.cuts = 0

    @property
    def port(self) -> int:
        """The port to connect to."""
        return int(self._server.sockets[0].getsockname()[1])

    def arm(self, trigger: bytes, cut: Cut, *, skip: int = 0) -> None:
        """Cut once, at the trigger that follows *skip* others; replaces what was armed before."""
        self._trigger, self._cut, self._skip = trigger, cut, skip

    def cut_all(self) -> None:
        """End all conversations now."""
        for conversation in list(self._open):
            conversation.end()

    def due(self, sent: bytes) -> Cut | None:
        """Say what is to be done about *sent*, and count it."""
        if self._cut is None or self._trigger not in sent:
            return None
        if self._skip:
            self._skip -= 1
            return None
        cut, self._cut = self._cut, None
        self.cuts += 1
        return cut

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.cut_all()
        await self._server.wait_closed()
        while self._open:  # noqa: ASYNC110 -- each takes itself out when its ends are closed
            await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refusing:
            writer.transport.abort()
            return
        conversation = _Conversation(self, writer)
        self._open.add(conversation)
        try:
            await conversation.carry(reader, *self._target)
        finally:
            conversation.end()
            self._open.discard(conversation)


class _Conversation:
    """One client's connection and the one to the server that belongs to it."""

    def __init__(self, proxy: Proxy, client: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._client = client
        self._server: asyncio.StreamWriter | None = None
        self._muted = False

    async def carry(self, from_client: asyncio.StreamReader, host: str, port: int) -> None:
        try:
            from_server, self._server = await asyncio.open_connection(host, port)
        except OSError:
            return
        tasks = [asyncio.create_task(self._up(from_client)), asyncio.create_task(self._down(from_server))]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def end(self) -> None:
        for writer in (self._client, self._server):
            if writer is not None:
                writer.transport.abort()

    async def _up(self, from_client: asyncio.StreamReader) -> None:
        with suppress(OSError):
            while data := await from_client.read(_CHUNK):
                cut = self._proxy.due(data)
                if cut is Cut.BEFORE or self._server is None:
                    return
                self._muted = self._muted or cut is not None
                self._server.write(data)
                await self._server.drain()
                if cut is Cut.DURING:
                    self._client.transport.abort()
                    self._server.close()  # a polite end, so that what was sent arrives
                    return

    async def _down(self, from_server: asyncio.StreamReader) -> None:
        with suppress(OSError):
            while data := await from_server.read(_CHUNK):
                if self._muted:  # the answer is dropped; what is left of a long message has been passed on till here
                    return
                self._client.write(data)
                await self._client.drain()
