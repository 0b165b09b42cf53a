"""The ASGI middleware, message by message: what the server is told, and when the key is ended."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.stores import InMemoryIdempotencyStore
from holdfast.web import IdempotencyMiddleware

SCOPE = {"type": "http", "method": "POST", "path": "/pay", "headers": [(b"idempotency-key", b"k")]}


class Shop:
    """An application that gives the same messages to each request."""

    def __init__(self, *messages: dict[str, Any]) -> None:
        self.calls = 0
        self._messages = messages

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.calls += 1
        for message in self._messages:
            await send(message)


def start(status: int = 201, **more: Any) -> dict[str, Any]:
    return {"type": "http.response.start", "status": status, "headers": [], **more}


def part(body: bytes, **more: Any) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, **more}


async def receive() -> dict[str, Any]:
    return {"type": "http.request", "body": b"1", "more_body": False}


@pytest.mark.parametrize(
    "messages",
    [
        [start(), part(b"whole")],
        [start(), part(b"x" * 1001)],
        [start(), part(b"x" * 900, more_body=True), part(b"x" * 200, more_body=True), part(b"")],
        [start(headers=[(b"content-type", b"text/event-stream")]), part(b"data: 1", more_body=True), part(b"data: 2")],
        [start(), {"type": "http.response.pathsend", "path": "/file"}],
        [start(), part(b"a", more_body=True), {"type": "http.response.zerocopysend", "file": 5, "more_body": True}],
        [start(trailers=True), part(b"whole"), {"type": "http.response.trailers", "headers": [(b"x-sum", b"1")]}],
    ],
    ids=["whole", "long", "long_in_parts", "events", "file", "file_after_a_part", "trailers"],
)
def test_server_is_told_what_the_application_says_after_the_key_is_ended(messages: list[Any]) -> None:
    store = InMemoryIdempotencyStore()
    sent: list[Any] = []
    stored: set[bool] = set()

    async def send(message: Any) -> None:
        entry = await store.get("http:any:k")
        stored.add(entry is not None and entry["status_code"] == 201)
        sent.append(message)

    asyncio.run(IdempotencyMiddleware(Shop(*messages), store=store, max_response_bytes=1000)(SCOPE, receive, send))
    assert sent == messages
    assert stored == {True}


def test_headers_may_be_any_iterable() -> None:
    headers = [(b"content-type", b"text/plain"), (b"x-order", b"1")]
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    app = Shop(start(headers=iter(headers)), part(b"whole"))
    asyncio.run(IdempotencyMiddleware(app, store=InMemoryIdempotencyStore())(SCOPE, receive, send))
    assert list(sent[0]["headers"]) == headers


class Slow(InMemoryIdempotencyStore):
    """A store that takes its time to end a claim, and so can be broken off."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = asyncio.Event()

    async def _finish(self, *args: Any) -> bool:
        await self._wait()
        return await super()._finish(*args)

    async def _release(self, *args: Any) -> bool:
        await self._wait()
        return await super()._release(*args)

    async def _wait(self) -> None:
        self.begun.set()
        for _ in range(5):
            await asyncio.sleep(0)


@pytest.mark.parametrize(("status", "calls"), [(201, 1), (503, 2)])
@pytest.mark.parametrize("more", [{}, {"headers": [(b"content-type", b"text/event-stream")]}], ids=["whole", "events"])
def test_key_is_ended_though_the_request_is_cancelled_meanwhile(status: int, calls: int, more: Any) -> None:
    shop = Shop(start(status, **more), part(b"x"))

    async def send(message: Any) -> None:
        await asyncio.sleep(0)

    async def main() -> None:
        store = Slow()
        app = IdempotencyMiddleware(shop, store=store)
        request = asyncio.ensure_future(app(SCOPE, receive, send))
        await store.begun.wait()
        while not request.done():  # as often as a cancelled scope of anyio does
            request.cancel()
            await asyncio.sleep(0)
        assert request.cancelled()
        entry = await store.get("http:any:k")
        assert (None if entry is None else entry["status_code"]) == (201 if status == 201 else None)
        await app(SCOPE, receive, send)

    asyncio.run(main())
    assert shop.calls == calls


def test_request_that_says_it_is_too_large_is_refused_before_it_is_sent() -> None:
    async def not_asked() -> Any:
        raise AssertionError("The client was told to go on with a body that is refused.")

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    shop = Shop(start(), part(b"whole"))
    app = IdempotencyMiddleware(shop, store=InMemoryIdempotencyStore(), max_body_bytes=5)
    asyncio.run(app({**SCOPE, "headers": [*SCOPE["headers"], (b"content-length", b"6")]}, not_asked, send))
    assert (sent[0]["status"], shop.calls) == (413, 0)
