"""Idempotency keys in front of any ASGI application: Starlette, FastAPI, Litestar, Quart and others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

from holdfast.web.core import Answer, Refused, Request, Rules, RuleSettings
from holdfast.web.gate import Gate, Pass
from holdfast.web.settings import client_function

if TYPE_CHECKING:
    import os
    from collections.abc import Awaitable, Callable, MutableMapping

    from holdfast.stores.idempotency.store import IdempotencyStore

    Scope: TypeAlias = "MutableMapping[str, Any]"
    Message: TypeAlias = "MutableMapping[str, Any]"
    Receive: TypeAlias = "Callable[[], Awaitable[Message]]"
    Send: TypeAlias = "Callable[[Message], Awaitable[None]]"
    Application: TypeAlias = "Callable[[Scope, Receive, Send], Awaitable[None]]"


_OVER = {"lifespan.shutdown.complete", "lifespan.shutdown.failed", "lifespan.startup.failed"}


class IdempotencyMiddleware:
    """Has each request with an ``Idempotency-Key`` carried out once, and answers its retries with the stored answer.

    *store* is an idempotency store, or the URL of a database. *client* tells from an ASGI scope whose request it is (a
    tenant, a user): keys of different clients never meet. The other settings are those of ``Rules``.

    An answer is stored before it is sent. It is therefore held until it is whole, up to ``max_response_bytes``. Longer
    ones, and server-sent events, are sent as they come: their status is stored before their first byte is sent, and a
    retry learns that the request was carried out.
    """

    def __init__(
        self,
        app: Application,
        *,
        store: IdempotencyStore | str | os.PathLike[str],
        client: Callable[[Scope], str | None] | None = None,
        **rules: Unpack[RuleSettings],
    ) -> None:
        self.app = app
        self._gate = Gate(Rules(**rules), store)
        self._client = client_function(client)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "lifespan":
            try:
                await self.app(scope, receive, self._closing(send))
            finally:
                await self._gate.close()
        else:
            await self.app(scope, receive, send)

    def _closing(self, send: Send) -> Send:
        """Return a ``send`` that closes the store before the server learns that all is over, and may end the loop."""

        async def tell(message: Message) -> None:
            if message["type"] in _OVER:
                await self._gate.close()
            await send(message)

        return tell

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        rules = self._gate.rules
        if scope["method"] not in rules.methods:
            await self.app(scope, receive, send)
            return
        request = self._request(scope)
        try:
            key = rules.key_of(request)
            if key is None:
                await self.app(scope, receive, send)
                return
            body = await _whole(request, receive, rules)
        except Refused as refused:
            await _answer(send, refused.answer)
            return
        if body is None:  # the client has gone
            return
        found = await self._gate.enter(key, request, body)
        if isinstance(found, Answer):
            await _answer(send, found)
        else:
            await self._carried_out(found, scope, _given_back(body, receive), send)

    async def _carried_out(self, granted: Pass, scope: Scope, receive: Receive, send: Send) -> None:
        answering = _Answering(granted, send, self._gate.rules.max_response_bytes)
        try:
            await self.app(scope, receive, answering)
        finally:
            await granted.abandon()  # nothing, unless the application raised, was cancelled or never answered

    def _request(self, scope: Scope) -> Request:
        headers = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"]]
        client = None if self._client is None else self._client(scope)
        return Request(scope["method"], scope["path"], scope.get("query_string", b""), headers, client)


class _Answering:
    """Takes the application's answer, stores it when it is whole, and only then sends it.

    One that cannot be held until then passes: its status is stored before its first byte is sent, for whatever happens
    to it after that, the request was carried out.
    """

    def __init__(self, granted: Pass, send: Send, most: int) -> None:
        self._granted = granted
        self._send = send
        self._most = most
        self._begun: tuple[Message, Answer] | None = None  # how the answer begins, as it came and as it is stored
        self._body = bytearray()
        self._passes = False

    async def __call__(self, message: Message) -> None:
        """Take one message of the application."""
        kind = message["type"]
        if self._passes:
            await self._send(message)
        elif kind == "http.response.start":
            if "headers" in message:  # any iterable, which may be gone through once
                message = {**message, "headers": list(message["headers"])}
            self._begun = message, _answer_of(message)
            if self._begun[1].is_stream:
                await self._let_pass(*self._begun)
        elif self._begun is None:
            await self._send(message)
        elif kind == "http.response.body":
            await self._hold(*self._begun, message)
        else:  # a file by its path, for instance: what it holds is not seen here
            await self._let_pass(*self._begun)
            await self._send(message)

    async def _hold(self, start: Message, answer: Answer, message: Message) -> None:
        part = message.get("body", b"")
        if len(self._body) + len(part) > self._most:
            await self._let_pass(start, answer)
            await self._send(message)
            return
        self._body += part
        if not message.get("more_body", False):
            self._passes = True
            body = bytes(self._body)
            await self._granted.leave(Answer(answer.status, answer.headers, body))
            await self._send(start)
            await self._send({"type": "http.response.body", "body": body})

    async def _let_pass(self, start: Message, answer: Answer) -> None:
        self._passes = True
        await self._granted.leave(answer, keep=False)
        await self._send(start)
        if self._body:
            await self._send({"type": "http.response.body", "body": bytes(self._body), "more_body": True})
            self._body.clear()


def _answer_of(start: Message) -> Answer:
    """Return an answer that begins so, without its body."""
    headers = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in start.get("headers", ())]
    return Answer(start["status"], headers, b"")


async def _whole(request: Request, receive: Receive, rules: Rules) -> bytes | None:
    """Return the body of a request, None if its client has gone; ``Refused`` if it is too large to be held.

    One that says so itself is refused before any of it is asked for, so a client that waits for "100 Continue" does
    not send it.
    """
    rules.length(next(iter(request.values("content-length")), None))
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if len(body) > rules.max_body_bytes:
            raise Refused(rules.too_large())
        if not message.get("more_body", False):
            return bytes(body)


def _given_back(body: bytes, receive: Receive) -> Receive:
    """Return a ``receive`` that gives the body, which was read, and then what comes after it."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return first.pop() if first else await receive()

    return again


async def _answer(send: Send, answer: Answer) -> None:
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


__all__ = ["IdempotencyMiddleware"]
