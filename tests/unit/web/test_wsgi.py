"""The WSGI middleware, through a WSGI client and Flask's way of answering."""

from __future__ import annotations

import io
import os
import sys
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

import pytest

from holdfast.web import WSGIIdempotencyMiddleware

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from holdfast.stores import SyncIdempotencyStore


class Answer:
    """What a client gets."""

    def __init__(self, app: Any, method: str, path: str, body: bytes, **headers: str) -> None:
        environ: dict[str, Any] = {"REQUEST_METHOD": method, "SCRIPT_NAME": "", "PATH_INFO": path}
        setup_testing_defaults(environ)
        environ["QUERY_STRING"] = ""
        environ |= {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}
        environ |= {f"HTTP_{name.upper()}": value for name, value in headers.items()}

        def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Callable[[bytes], object]:
            self.status = int(status.split(maxsplit=1)[0])
            self.headers = {name.lower(): value for name, value in headers}
            return lambda data: None

        parts = validator(app)(environ, start)
        try:
            self.body = b"".join(parts)
        finally:
            parts.close()  # type: ignore[attr-defined]


def post(app: Any, body: bytes = b"1", key: str | None = "k", path: str = "/pay") -> Answer:
    return Answer(app, "POST", path, body, **({} if key is None else {"idempotency_key": key}))


class Shop:
    """An application that counts its requests."""

    def __init__(self, status: str = "201 Created", parts: int = 1, *, fails: bool = False) -> None:
        self.requests: list[bytes] = []
        self.closed = 0
        self._status, self._parts, self._fails = status, parts, fails

    def __call__(self, environ: Any, start_response: Any) -> Any:
        body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
        self.requests.append(body)
        if self._fails:
            raise ZeroDivisionError
        start_response(self._status, [("Content-Type", "text/plain"), ("Set-Cookie", "a=b")])
        return self._body()

    def _body(self) -> Any:
        try:
            for _ in range(self._parts):
                yield b"order %d\n" % len(self.requests)
        finally:
            self.closed += 1


def test_retry_gets_the_stored_answer(store: SyncIdempotencyStore) -> None:
    shop = Shop(parts=3)
    app = WSGIIdempotencyMiddleware(shop, store=store)
    first, again = post(app, key='"k"'), post(app, key="k")
    assert (first.status, again.status) == (201, 201)
    assert first.body == again.body == b"order 1\n" * 3
    assert (first.headers["set-cookie"], again.headers.get("set-cookie")) == ("a=b", None)
    assert again.headers["idempotency-replayed"] == "true"
    assert (shop.requests, shop.closed) == ([b"1"], 1)


def test_refusals_are_problems(store: SyncIdempotencyStore) -> None:
    shop = Shop()
    app = WSGIIdempotencyMiddleware(shop, store=store, required=["/pay"], max_body_bytes=5)
    assert post(app).status == 201
    refused = [post(app, key=None), post(app, b"2"), post(app, key="x" * 256), post(app, b"123456", key="other")]
    assert [answer.status for answer in refused] == [400, 422, 400, 413]
    assert {answer.headers["content-type"] for answer in refused} == {"application/problem+json"}
    assert len(shop.requests) == 1
    assert post(app, key=None, path="/free").status == 201


def test_patterns_are_written_as_paths_are_read(store: SyncIdempotencyStore) -> None:
    app = WSGIIdempotencyMiddleware(Shop(), store=store, required=["/köln/*"])
    sent = "/köln/1".encode().decode("latin-1")  # as a server gives it
    assert post(app, key=None, path=sent).status == 400
    assert post(app, key=None, path="/koeln/1").status == 201
    assert post(app, path=sent).status == 201


def test_content_type_makes_another_request_where_it_counts(store: SyncIdempotencyStore) -> None:
    shop = Shop()
    app = WSGIIdempotencyMiddleware(shop, store=store, include_headers=("Content-Type",))

    def posted(content_type: str) -> int:
        def typed(environ: Any, start_response: Any) -> Any:
            return app({**environ, "CONTENT_TYPE": content_type}, start_response)

        return post(typed).status

    assert [posted(each) for each in ("application/json", "application/json", "application/xml")] == [201, 201, 422]
    assert len(shop.requests) == 1


def test_application_that_raises_frees_the_key(store: SyncIdempotencyStore) -> None:
    shop = Shop(fails=True)
    app = WSGIIdempotencyMiddleware(shop, store=store)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            post(app)
    assert len(shop.requests) == 2


def test_server_errors_are_tried_again(store: SyncIdempotencyStore) -> None:
    shop = Shop("503 Service Unavailable")
    app = WSGIIdempotencyMiddleware(shop, store=store)
    assert [post(app).status for _ in range(2)] == [503, 503]
    assert len(shop.requests) == 2


def test_answer_that_is_too_large_is_sent_and_remembered(store: SyncIdempotencyStore) -> None:
    shop = Shop(parts=100)
    app = WSGIIdempotencyMiddleware(shop, store=store, max_response_bytes=50)
    assert post(app).body == b"order 1\n" * 100
    assert post(app).status == 409
    assert (len(shop.requests), shop.closed) == (1, 1)


@pytest.mark.parametrize("parts", [1, 100])
def test_application_is_told_that_its_answer_is_over_if_it_raises(store: SyncIdempotencyStore, parts: int) -> None:
    class Body:
        closed = 0

        def __iter__(self) -> Any:
            for _ in range(parts):
                yield b"0123456789"
            raise ZeroDivisionError

        def close(self) -> None:
            self.closed += 1

    def failing(environ: Any, start_response: Any) -> Any:
        environ["wsgi.input"].read(1)
        start_response("200 OK", [("Content-Type", "text/plain")])
        return body

    body = Body()
    with pytest.raises(ZeroDivisionError):
        post(WSGIIdempotencyMiddleware(failing, store=store, max_response_bytes=50))
    assert body.closed == 1


def test_error_that_comes_too_late_for_another_answer_is_the_servers(store: SyncIdempotencyStore) -> None:
    def failing(environ: Any, start_response: Any) -> Any:
        start_response("200 OK", [("Content-Type", "text/plain")])
        yield b"x" * 100
        try:
            raise ZeroDivisionError
        except ZeroDivisionError:
            start_response("500 Internal Server Error", [], sys.exc_info())

    told: list[tuple[str, Any]] = []

    def start(status: str, headers: Any, exc_info: Any = None) -> Any:
        told.append((status, exc_info and exc_info[0]))
        if exc_info:
            raise exc_info[1]

    environ = {"REQUEST_METHOD": "POST", "PATH_INFO": "/", "HTTP_IDEMPOTENCY_KEY": "k", "wsgi.input": io.BytesIO()}
    parts = iter(WSGIIdempotencyMiddleware(failing, store=store, max_response_bytes=50)(environ, start))
    assert next(parts) == b"x" * 100
    with pytest.raises(ZeroDivisionError):
        next(parts)
    assert told == [("200 OK", None), ("500 Internal Server Error", ZeroDivisionError)]


@pytest.mark.parametrize(
    ("given", "status", "length"),
    [
        ("\xb2", 201, 0),
        ("x", 201, 0),
        ("-1", 201, 0),
        ("03", 201, 3),
        ("5", 400, None),
        ("6", 413, None),
        ("9" * 5000, 413, None),
    ],
)
def test_length_of_a_request_may_be_nonsense(
    store: SyncIdempotencyStore, given: str, status: int, length: int | None
) -> None:
    shop = Shop()
    environ = {"REQUEST_METHOD": "POST", "PATH_INFO": "/", "HTTP_IDEMPOTENCY_KEY": "k", "CONTENT_LENGTH": given}
    told: list[str] = []
    app = WSGIIdempotencyMiddleware(shop, store=store, max_body_bytes=5)
    app(environ | {"wsgi.input": io.BytesIO(b"1234")}, lambda line, headers: told.append(line))
    assert told[0].startswith(str(status))
    assert [len(body) for body in shop.requests] == ([] if length is None else [length])


def test_concurrent_duplicates_are_409(store: SyncIdempotencyStore) -> None:
    begun, go_on = threading.Event(), threading.Event()
    calls: list[str] = []

    def slow(environ: Any, start_response: Any) -> Any:
        calls.append("called")
        environ["wsgi.input"].read(1)
        begun.set()
        assert go_on.wait(60)
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"done"]

    app = WSGIIdempotencyMiddleware(slow, store=store)
    answers: list[Answer] = []
    first = threading.Thread(target=lambda: answers.append(post(app)))
    first.start()
    assert begun.wait(60)
    assert post(app).status == 409
    go_on.set()
    first.join()
    assert answers[0].body == post(app).body == b"done"
    assert calls == ["called"]


def test_store_named_by_a_url_is_opened_in_each_forked_process(tmp_path: Path) -> None:
    shop = Shop()
    with closing(WSGIIdempotencyMiddleware(shop, store=f"sqlite:///{tmp_path}/keys.db")) as app:
        child = os.fork()
        if child == 0:
            os._exit(0 if post(app).body == b"order 1\n" else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert post(app).body == b"order 1\n"
        assert shop.requests == []
