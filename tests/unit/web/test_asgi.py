"""The ASGI middleware in front of a small application, and of three frameworks."""

from __future__ import annotations

import asyncio
import json
import threading
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.errors import ConfigurationError, Unavailable
from holdfast.stores import InMemoryIdempotencyStore
from holdfast.testing.workers import until
from holdfast.web import IdempotencyMiddleware, WSGIIdempotencyMiddleware

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

KEY = {"Idempotency-Key": '"k"'}


class Shop:
    """An application that counts its requests and answers as it is told."""

    def __init__(self, answer: Callable[[Any, bytes, Any], Awaitable[None]] | None = None) -> None:
        self.requests: list[bytes] = []
        self._answer = answer

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        self.requests.append(body)
        if self._answer is not None:
            await self._answer(scope, body, send)
            return
        await respond(send, 201, b'{"order": %d}' % len(self.requests), (b"content-type", b"application/json"))


async def respond(send: Any, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    await send({"type": "http.response.start", "status": status, "headers": list(headers)})
    await send({"type": "http.response.body", "body": body})


def play(app: Any, scene: Callable[[httpx.AsyncClient], Awaitable[None]], **rules: Any) -> None:
    async def main() -> None:
        rules.setdefault("store", InMemoryIdempotencyStore())
        wrapped = IdempotencyMiddleware(app, **rules)
        transport = httpx.ASGITransport(wrapped, raise_app_exceptions=True)
        async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
            await scene(client)

    asyncio.run(main())


def test_retry_gets_the_stored_answer_byte_for_byte_with_a_marker() -> None:
    shop = Shop()

    async def scene(client: httpx.AsyncClient) -> None:
        first = await client.post("/pay", content=b"{}", headers=KEY)
        again = await client.post("/pay", content=b"{}", headers={"Idempotency-Key": "k"})
        assert (first.status_code, again.status_code) == (201, 201)
        assert first.content == again.content == b'{"order": 1}'
        assert "idempotency-replayed" not in first.headers
        assert again.headers["idempotency-replayed"] == "true"
        assert again.headers["content-type"] == "application/json"
        assert (await client.post("/pay", content=b"{}", headers={"Idempotency-Key": "other"})).content != first.content

    play(shop, scene)
    assert len(shop.requests) == 2


def test_body_reaches_the_application_whole() -> None:
    shop = Shop()

    async def parts() -> Any:
        for part in (b"ab", b"", b"c" * 1000):
            yield part

    async def scene(client: httpx.AsyncClient) -> None:
        await client.post("/pay", content=parts(), headers=KEY)

    play(shop, scene)
    assert shop.requests == [b"ab" + b"c" * 1000]


def test_changed_request_is_422_and_missing_key_400_where_required() -> None:
    shop = Shop()

    async def scene(client: httpx.AsyncClient) -> None:
        await client.post("/pay", content=b"1", headers=KEY)
        for changed in (
            client.post("/pay", content=b"2", headers=KEY),
            client.put("/pay", content=b"1", headers=KEY),
            client.post("/other", content=b"1", headers=KEY),
            client.post("/pay?x=1", content=b"1", headers=KEY),
        ):
            answer = await changed
            assert answer.status_code == 422
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["status"] == 422
        assert (await client.post("/pay", content=b"1")).status_code == 400
        assert (await client.get("/pay")).status_code == 201

    play(shop, scene, required=True)
    assert len(shop.requests) == 2


def test_requests_without_a_key_are_never_merged() -> None:
    shop = Shop()

    async def scene(client: httpx.AsyncClient) -> None:
        assert {(await client.post("/pay", content=b"1")).content for _ in range(3)} == {
            b'{"order": 1}',
            b'{"order": 2}',
            b'{"order": 3}',
        }

    play(shop, scene)


def test_concurrent_duplicates_are_409_with_retry_after_and_one_is_carried_out() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(scope: Any, body: bytes, send: Any) -> None:
        begun.set()
        await go_on.wait()
        await respond(send, 200, b"done")

    shop = Shop(slow)

    async def scene(client: httpx.AsyncClient) -> None:
        first = asyncio.create_task(client.post("/pay", content=b"1", headers=KEY))
        await begun.wait()
        others = await asyncio.gather(*(client.post("/pay", content=b"1", headers=KEY) for _ in range(5)))
        assert {answer.status_code for answer in others} == {409}
        assert others[0].headers["retry-after"] == "1"
        assert (await client.post("/pay", content=b"2", headers=KEY)).status_code == 422
        go_on.set()
        assert (await first).content == b"done"
        assert (await client.post("/pay", content=b"1", headers=KEY)).content == b"done"

    play(shop, scene)
    assert len(shop.requests) == 1


def test_duplicates_may_wait_for_the_first_answer() -> None:
    async def slow(scope: Any, body: bytes, send: Any) -> None:
        await asyncio.sleep(0.05)
        await respond(send, 200, b"done")

    shop = Shop(slow)

    async def scene(client: httpx.AsyncClient) -> None:
        answers = await asyncio.gather(*(client.post("/pay", content=b"1", headers=KEY) for _ in range(5)))
        assert {answer.content for answer in answers} == {b"done"}

    play(shop, scene, wait_seconds=60)
    assert len(shop.requests) == 1


@pytest.mark.parametrize(("status", "times"), [(200, 1), (404, 1), (500, 2), (503, 2), (429, 2)])
def test_answers_that_may_pass_are_not_stored(status: int, times: int) -> None:
    async def answer(scope: Any, body: bytes, send: Any) -> None:
        await respond(send, status, b"x")

    shop = Shop(answer)

    async def scene(client: httpx.AsyncClient) -> None:
        for _ in range(2):
            assert (await client.post("/pay", content=b"1", headers=KEY)).status_code == status

    play(shop, scene)
    assert len(shop.requests) == times


def test_server_errors_are_stored_when_all_answers_are() -> None:
    async def answer(scope: Any, body: bytes, send: Any) -> None:
        await respond(send, 500, b"broken")

    shop = Shop(answer)

    async def scene(client: httpx.AsyncClient) -> None:
        for _ in range(2):
            assert (await client.post("/pay", content=b"1", headers=KEY)).content == b"broken"

    play(shop, scene, save="all")
    assert len(shop.requests) == 1


def test_application_that_raises_frees_the_key_and_its_error_is_not_swallowed() -> None:
    async def answer(scope: Any, body: bytes, send: Any) -> None:
        if len(shop.requests) == 1:
            raise ZeroDivisionError
        await respond(send, 200, b"done")

    shop = Shop(answer)

    async def scene(client: httpx.AsyncClient) -> None:
        with pytest.raises(ZeroDivisionError):
            await client.post("/pay", content=b"1", headers=KEY)
        assert (await client.post("/pay", content=b"1", headers=KEY)).content == b"done"

    play(shop, scene)


def test_answer_in_parts_is_stored_whole() -> None:
    async def answer(scope: Any, body: bytes, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for part in (b"a", b"", b"b\xff"):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body"})

    async def scene(client: httpx.AsyncClient) -> None:
        for _ in range(2):
            assert (await client.post("/pay", content=b"1", headers=KEY)).content == b"ab\xff"

    play(Shop(answer), scene)


@pytest.mark.parametrize("in_parts", [True, False])
def test_answer_that_is_too_large_is_sent_and_a_retry_learns_that_it_was_carried_out(in_parts: bool) -> None:
    async def answer(scope: Any, body: bytes, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(2 if in_parts else 0):
            await send({"type": "http.response.body", "body": b"x" * 800, "more_body": True})
        await send({"type": "http.response.body", "body": b"y" * 1200})

    shop = Shop(answer)

    async def scene(client: httpx.AsyncClient) -> None:
        first = await client.post("/pay", content=b"1", headers=KEY)
        assert first.content == b"x" * (1600 if in_parts else 0) + b"y" * 1200
        again = await client.post("/pay", content=b"1", headers=KEY)
        assert again.status_code == 409
        assert "too large" in again.json()["detail"]

    play(shop, scene, max_response_bytes=1000)
    assert len(shop.requests) == 1


def test_events_are_sent_as_they_come() -> None:
    seen: list[bytes] = []

    async def answer(scope: Any, body: bytes, send: Any) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True})
        seen.append(b"first")
        await send({"type": "http.response.body", "body": b"data: 2\n\n"})

    async def scene(client: httpx.AsyncClient) -> None:
        assert (await client.post("/pay", content=b"1", headers=KEY)).content == b"data: 1\n\ndata: 2\n\n"
        assert (await client.post("/pay", content=b"1", headers=KEY)).status_code == 409

    play(Shop(answer), scene)
    assert seen == [b"first"]


def test_request_that_is_too_large_is_413_and_not_carried_out() -> None:
    shop = Shop()

    async def scene(client: httpx.AsyncClient) -> None:
        assert (await client.post("/pay", content=b"x" * 1001, headers=KEY)).status_code == 413
        assert (await client.post("/pay", content=b"x" * 1000, headers=KEY)).status_code == 201
        assert (await client.post("/pay", content=b"x" * 2000)).status_code == 201

    play(shop, scene, max_body_bytes=1000)
    assert len(shop.requests) == 2


def test_keys_of_clients_never_meet() -> None:
    def client_of(scope: Any) -> str | None:
        return dict(scope["headers"]).get(b"x-tenant", b"").decode() or None

    async def scene(client: httpx.AsyncClient) -> None:
        answers = [
            (await client.post("/pay", content=b"1", headers={**KEY, "X-Tenant": tenant})).content
            for tenant in ("a", "b", "a")
        ]
        assert answers == [b'{"order": 1}', b'{"order": 2}', b'{"order": 1}']

        forged = f"{sha256(b'a').hexdigest()[:32]}:k"
        for key in (forged, f"of:{forged}", f"http:of:{forged}"):
            answer = await client.post("/pay", content=b"1", headers={"Idempotency-Key": key})
            assert "idempotency-replayed" not in answer.headers

    shop = Shop()
    play(shop, scene, client=client_of)
    assert len(shop.requests) == 5


def test_cookies_reach_the_first_client_and_no_other() -> None:
    async def answer(scope: Any, body: bytes, send: Any) -> None:
        await respond(send, 200, b"x", (b"set-cookie", b"session=secret"), (b"x-a", b"1"), (b"x-a", b"2"))

    async def scene(client: httpx.AsyncClient) -> None:
        first = await client.post("/pay", content=b"1", headers=KEY)
        assert first.headers["set-cookie"] == "session=secret"
        client.cookies.clear()
        again = await client.post("/pay", content=b"1", headers=KEY)
        assert "set-cookie" not in again.headers
        assert again.headers.get_list("x-a") == ["1", "2"]

    play(Shop(answer), scene)


def test_store_that_is_away_is_503_and_the_request_is_not_carried_out() -> None:
    class Away(InMemoryIdempotencyStore):
        async def _claim(self, *args: Any, **kwargs: Any) -> Any:
            raise Unavailable("away")

    shop = Shop()

    async def scene(client: httpx.AsyncClient) -> None:
        answer = await client.post("/pay", content=b"1", headers=KEY)
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "1"

    play(shop, scene, store=Away())
    assert shop.requests == []


def test_answer_reaches_the_client_even_if_it_cannot_be_stored() -> None:
    class Away(InMemoryIdempotencyStore):
        async def _finish(self, *args: Any) -> Any:
            raise Unavailable("away")

    async def scene(client: httpx.AsyncClient) -> None:
        assert (await client.post("/pay", content=b"1", headers=KEY)).status_code == 201

    play(Shop(), scene, store=Away())


def test_client_that_goes_before_its_request_is_whole_leaves_nothing() -> None:
    shop = Shop()
    store = InMemoryIdempotencyStore()
    sent: list[Any] = []

    async def main() -> None:
        app = IdempotencyMiddleware(shop, store=store)
        messages: list[Any] = [{"type": "http.request", "body": b"1", "more_body": True}, {"type": "http.disconnect"}]

        async def receive() -> Any:
            return messages.pop(0)

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": "/", "headers": [(b"idempotency-key", b"k")]}
        await app(scope, receive, send)

    asyncio.run(main())
    assert (sent, shop.requests, len(store)) == ([], [], 0)


def test_cancelled_request_frees_its_key() -> None:
    begun = asyncio.Event()

    async def answer(scope: Any, body: bytes, send: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    store = InMemoryIdempotencyStore()

    async def scene(client: httpx.AsyncClient) -> None:
        request = asyncio.create_task(client.post("/pay", content=b"1", headers=KEY))
        await begun.wait()
        assert len(store) == 1
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        assert len(store) == 0

    play(Shop(answer), scene, store=store)


def test_store_may_be_named_by_a_url_and_is_closed_with_the_lifespan(tmp_path: Path) -> None:
    async def main() -> None:
        seen: list[Any] = []

        async def app(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "lifespan":
                seen.append(await receive())
            else:
                await Shop()(scope, receive, send)

        wrapped = IdempotencyMiddleware(app, store=tmp_path / "keys.db")
        async with httpx.AsyncClient(transport=httpx.ASGITransport(wrapped), base_url="http://shop") as client:
            for _ in range(2):
                assert (await client.post("/pay", content=b"1", headers=KEY)).content == b'{"order": 1}'

        async def receive() -> Any:
            return {"type": "lifespan.shutdown"}

        async def send(message: Any) -> None:
            raise AssertionError(message)

        await wrapped({"type": "lifespan"}, receive, send)
        assert seen == [{"type": "lifespan.shutdown"}]

    asyncio.run(main())
    assert (tmp_path / "keys.db").exists()


def test_store_named_by_a_url_is_opened_for_each_loop_and_ends_with_it(tmp_path: Path) -> None:
    shop = Shop()
    wrapped = IdempotencyMiddleware(shop, store=tmp_path / "keys.db")
    before = set(threading.enumerate())

    async def ask() -> bytes:  # as a test client does that has a loop for each request, and no lifespan
        async with httpx.AsyncClient(transport=httpx.ASGITransport(wrapped), base_url="http://shop") as client:
            return (await client.post("/pay", content=b"1", headers=KEY)).content

    assert {asyncio.run(ask()) for _ in range(4)} == {b'{"order": 1}'}
    assert len(shop.requests) == 1

    async def end() -> None:
        await wrapped({"type": "lifespan"}, None, None)  # type: ignore[arg-type]

    wrapped.app = _nothing
    asyncio.run(end())
    until(lambda: not set(threading.enumerate()) - before)


async def _nothing(scope: Any, receive: Any, send: Any) -> None:
    """End at once."""


@pytest.mark.parametrize("middleware", [IdempotencyMiddleware, WSGIIdempotencyMiddleware])
@pytest.mark.parametrize("store", ["nonsense://host/db", "redis://host/no-number", "", 5, object()])
def test_store_that_cannot_be_is_refused_where_the_middleware_is_made(middleware: Any, store: Any) -> None:
    with pytest.raises(ConfigurationError):
        middleware(None, store=store)


@pytest.mark.parametrize("last", ["lifespan.shutdown.complete", "lifespan.shutdown.failed", "lifespan.startup.failed"])
def test_store_is_closed_when_the_server_learns_that_all_is_over(tmp_path: Path, last: str) -> None:
    log = tmp_path / "keys.db-wal"
    told: list[tuple[str, bool]] = []

    async def main() -> None:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "lifespan":
                await send({"type": "lifespan.startup.complete"})
                await send({"type": last})
                await asyncio.Event().wait()  # a server ends its loop here, and with it whatever would come after
            else:
                await Shop()(scope, receive, send)

        async def send(message: Any) -> None:
            told.append((message["type"], log.exists()))
            if message["type"] == last:
                living.cancel()

        wrapped = IdempotencyMiddleware(app, store=tmp_path / "keys.db")
        async with httpx.AsyncClient(transport=httpx.ASGITransport(wrapped), base_url="http://shop") as client:
            await client.post("/pay", content=b"1", headers=KEY)
        living = asyncio.ensure_future(wrapped({"type": "lifespan"}, None, send))  # type: ignore[arg-type]
        with pytest.raises(asyncio.CancelledError):
            await living

    asyncio.run(main())
    assert told == [("lifespan.startup.complete", True), (last, False)]


def test_websockets_are_left_alone() -> None:
    seen: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    asyncio.run(IdempotencyMiddleware(app, store=InMemoryIdempotencyStore())({"type": "websocket"}, None, None))  # type: ignore[arg-type]
    assert seen == ["websocket"]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.tuples(st.sampled_from([b"idempotency-key", b"x-a"]), st.binary(max_size=300)), max_size=3),
    st.binary(max_size=200),
    st.binary(max_size=40),
    st.sampled_from(["POST", "PUT", "PATCH", "DELETE", "GET"]),
)
def test_whatever_is_sent_is_never_an_error_of_ours(
    headers: list[tuple[bytes, bytes]], body: bytes, query: bytes, method: str
) -> None:
    shop = Shop()
    sent: list[Any] = []

    async def main() -> None:
        app = IdempotencyMiddleware(shop, store=InMemoryIdempotencyStore(), max_body_bytes=150)

        async def receive() -> Any:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        path = body.decode("latin-1")
        scope = {"type": "http", "method": method, "path": path, "query_string": query, "headers": headers}
        for _ in range(2):
            await app(scope, receive, send)

    asyncio.run(main())
    statuses = [message["status"] for message in sent if message["type"] == "http.response.start"]
    assert len(statuses) == 2
    assert statuses[0] == statuses[1]
    assert set(statuses) <= {201, 400, 413}
    for message in sent:
        if message["type"] == "http.response.body" and statuses[0] != 201:
            assert json.loads(message["body"])["status"] == statuses[0]


def _starlette(calls: list[Any], store: Any) -> Any:
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def pay(request: Any) -> JSONResponse:
        calls.append(await request.json())
        return JSONResponse({"order": len(calls)}, status_code=201)

    middleware = [Middleware(IdempotencyMiddleware, store=store)]
    return Starlette(routes=[Route("/pay", pay, methods=["POST"])], middleware=middleware)


def _fastapi(calls: list[Any], store: Any) -> Any:
    from fastapi import FastAPI

    app = FastAPI()
    app.add_middleware(IdempotencyMiddleware, store=store)

    @app.post("/pay", status_code=201)
    async def pay(order: dict[str, int]) -> dict[str, int]:
        calls.append(order)
        return {"order": len(calls)}

    return app


def _litestar(calls: list[Any], store: Any) -> Any:
    from litestar import Litestar, Request, post
    from litestar.middleware import DefineMiddleware

    @post("/pay")
    async def pay(request: Request[Any, Any, Any]) -> dict[str, int]:
        calls.append(await request.json())
        return {"order": len(calls)}

    pay.fn.__annotations__ |= {"request": Request[Any, Any, Any], "return": dict[str, int]}
    middleware: Any = IdempotencyMiddleware  # its types are wider than this framework's
    return Litestar([pay], middleware=[DefineMiddleware(middleware, store=store)])


@pytest.mark.parametrize("make", [_starlette, _fastapi, _litestar], ids=["starlette", "fastapi", "litestar"])
def test_frameworks_carry_a_request_out_once(make: Callable[[list[Any], Any], Any]) -> None:
    calls: list[Any] = []

    async def main() -> None:
        app = make(calls, InMemoryIdempotencyStore())
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://shop") as client:
            first, again = [await client.post("/pay", json={"cents": 1}, headers=KEY) for _ in range(2)]
            assert (first.status_code, again.status_code) == (201, 201)
            assert first.content == again.content
            assert again.headers["idempotency-replayed"] == "true"
            assert again.headers["content-type"] == first.headers["content-type"]
            assert (await client.post("/pay", json={"cents": 2}, headers=KEY)).status_code == 422

    asyncio.run(main())
    assert calls == [{"cents": 1}]
