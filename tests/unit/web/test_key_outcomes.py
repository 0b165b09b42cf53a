"""What becomes of a key, case by case: the table of the reference, in front of each kind of application."""

from __future__ import annotations

import asyncio
import io
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias
from wsgiref.util import setup_testing_defaults

import pytest

from holdfast.errors import Unavailable
from holdfast.stores import InMemoryIdempotencyStore, SyncIdempotencyStore
from holdfast.web import IdempotencyMiddleware, WSGIIdempotencyMiddleware

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Retry: TypeAlias = Literal["carried out", "answered", "told that it was carried out", "told to wait"]
SHORT, LONG = (b"abc", b"def", b"ghi"), (b"a" * 600, b"b" * 600, b"c" * 600)
TEXT, EVENTS = ("Content-Type", "text/plain"), ("Content-Type", "Text/Event-Stream; charset=utf-8")
NOT_KEPT: Literal["told that it was carried out"] = "told that it was carried out"
MOST = 1000  # bytes of an answer that is held
BEFORE, AFTER = -1, 4  # the parts of an answer, and of what goes wrong with it, are 0, 1 and 2; 3 is where it ends


class AppFailedError(Exception):
    """What an application raises."""


class ClientGoneError(ConnectionResetError):
    """What an ASGI server raises when nobody is left to send to."""


@dataclass(frozen=True)
class Case:
    """How a request goes: where its application raises or is stopped, where its client goes away."""

    retry: Retry
    parts: tuple[bytes, ...] = SHORT
    status: int = 200
    header: tuple[str, str] = TEXT
    fails_at: int | None = None
    stopped_at: int | None = None
    gone_at: int | None = None
    ends_without_answer: bool = False
    request_is_whole: bool = True
    store_is_away: bool = False
    rules: dict[str, Any] = field(default_factory=dict)

    def happens(self, place: int, stop: Callable[[], Any]) -> None:
        """Go wrong, if this is the place."""
        if place == self.fails_at:
            raise AppFailedError
        if place == self.stopped_at:
            stop()

    def given(self, stop: Callable[[], Any]) -> Iterator[bytes]:
        """Give the parts of the answer."""
        for place, part in enumerate(self.parts):
            self.happens(place, stop)
            yield part
        self.happens(len(self.parts), stop)


def broken_rule(status: int) -> bool:
    raise AppFailedError(status)


CASES = {
    "client_gone_before_the_request_is_whole": Case("carried out", request_is_whole=False),
    "raises_before_its_answer": Case("carried out", fails_at=BEFORE),
    "stopped_before_its_answer": Case("carried out", stopped_at=BEFORE),
    "ends_without_an_answer": Case("carried out", ends_without_answer=True, rules={"save": "all"}),
    "raises_within_a_held_answer": Case("carried out", fails_at=2),
    "stopped_within_a_held_answer": Case("carried out", stopped_at=3),
    "whole": Case("answered"),
    "whole_and_client_gone_at_once": Case("answered", gone_at=0),
    "whole_and_client_gone_within": Case("answered", gone_at=1),
    "whole_and_raises_after": Case("answered", fails_at=AFTER),
    "whole_and_stopped_after": Case("answered", stopped_at=AFTER),
    "long": Case(NOT_KEPT, LONG),
    "long_and_client_gone_at_once": Case(NOT_KEPT, LONG, gone_at=0),
    "long_and_client_gone_within": Case(NOT_KEPT, LONG, gone_at=1),
    "long_and_raises_within": Case(NOT_KEPT, LONG, fails_at=2),
    "long_and_stopped_within": Case(NOT_KEPT, LONG, stopped_at=3),
    "events": Case(NOT_KEPT, header=EVENTS),
    "events_and_client_gone_at_once": Case(NOT_KEPT, header=EVENTS, gone_at=0),
    "events_and_client_gone_within": Case(NOT_KEPT, header=EVENTS, gone_at=1),
    "events_and_raises_within": Case(NOT_KEPT, header=EVENTS, fails_at=1),
    "events_and_stopped_within": Case(NOT_KEPT, header=EVENTS, stopped_at=3),
    "status_that_is_not_stored": Case("carried out", status=503),
    "long_with_status_that_is_not_stored": Case("carried out", LONG, status=503, gone_at=1),
    "rule_raises": Case("answered", rules={"save": broken_rule}),
    "store_is_away": Case("told to wait", store_is_away=True),
    "long_and_store_is_away": Case("told to wait", LONG, store_is_away=True),
    "long_and_rule_raises": Case(NOT_KEPT, LONG, rules={"save": broken_rule}),
}


class Told:
    """What a client gets, and what its server is told."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        self.error: BaseException | None = None

    def begins(self, status: int, headers: Any) -> None:
        self.status = status
        self.headers = {name.lower(): value for name, value in headers}


class ASGIServer:
    """Serves an application behind the ASGI middleware."""

    stopped: ClassVar[type[BaseException]] = asyncio.CancelledError

    def __init__(self, rules: dict[str, Any]) -> None:
        self.calls = 0
        self._case = Case("carried out")
        self._app = IdempotencyMiddleware(self._answer, store=InMemoryIdempotencyStore(), **rules)

    def ask(self, case: Case) -> Told:
        self._case = case
        told = Told()
        try:
            asyncio.run(self._asked(told))
        except (AppFailedError, ClientGoneError, asyncio.CancelledError) as error:
            told.error = error
        return told

    async def _asked(self, told: Told) -> None:
        coming: list[Any] = [
            {"type": "http.request", "body": b"12", "more_body": True},
            {"type": "http.request", "body": b"34"} if self._case.request_is_whole else {"type": "http.disconnect"},
        ]

        async def receive() -> Any:
            return coming.pop(0)

        sent = 0

        async def send(message: Any) -> None:
            nonlocal sent
            if sent == self._case.gone_at:
                raise ClientGoneError
            sent += 1
            if message["type"] == "http.response.start":
                told.begins(message["status"], [(name.decode(), value.decode()) for name, value in message["headers"]])
            told.body += message.get("body", b"")

        headers = [(b"idempotency-key", b"k")]
        await self._app({"type": "http", "method": "POST", "path": "/pay", "headers": headers}, receive, send)

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        case, task = self._case, asyncio.current_task()
        assert task is not None
        self.calls += 1
        case.happens(BEFORE, task.cancel)
        await asyncio.sleep(0)
        if case.ends_without_answer:
            return
        headers = [tuple(each.encode() for each in case.header)]
        await send({"type": "http.response.start", "status": case.status, "headers": headers})
        for part in case.given(task.cancel):
            await asyncio.sleep(0)
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": b""})
        case.happens(AFTER, task.cancel)
        await asyncio.sleep(0)


def _environ(case: Case) -> dict[str, Any]:
    environ: dict[str, Any] = {"REQUEST_METHOD": "POST", "PATH_INFO": "/pay", "HTTP_IDEMPOTENCY_KEY": "k"}
    setup_testing_defaults(environ)
    body = b"1234" if case.request_is_whole else b"12"
    return environ | {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": "4"}


def _exit() -> None:
    raise SystemExit


class _Body:
    """An answer that comes part by part, and is told when it is over."""

    def __init__(self, case: Case) -> None:
        self._case = case

    def __iter__(self) -> Iterator[bytes]:
        return self._case.given(_exit)

    def close(self) -> None:
        self._case.happens(AFTER, _exit)


class WSGIServer:
    """Serves an application behind the WSGI middleware."""

    stopped: ClassVar[type[BaseException]] = SystemExit

    def __init__(self, rules: dict[str, Any], store: SyncIdempotencyStore) -> None:
        self.calls = 0
        self._case = Case("carried out")
        self._app = WSGIIdempotencyMiddleware(self._answer, store=store, **rules)

    def ask(self, case: Case) -> Told:
        self._case = case
        told = Told()
        environ = _environ(case)

        def start(status: str, headers: Any, exc_info: Any = None) -> None:
            told.begins(int(status.split(maxsplit=1)[0]), headers)

        try:
            _sent(self._app(environ, start), told, case.gone_at)
        except (AppFailedError, RuntimeError, SystemExit) as error:
            told.error = error
        return told

    def _answer(self, environ: Any, start_response: Any) -> Any:
        self.calls += 1
        self._case.happens(BEFORE, _exit)
        if not self._case.ends_without_answer:
            start_response(f"{self._case.status} Status", [self._case.header])
        return _Body(self._case)


class DjangoServer:
    """Serves a view behind the Django middleware."""

    stopped: ClassVar[type[BaseException]] = SystemExit

    def __init__(self, rules: dict[str, Any], store: SyncIdempotencyStore, patch: pytest.MonkeyPatch) -> None:
        from django.conf import settings  # type: ignore[import-untyped]

        from holdfast.web import django

        self.calls = 0
        self._case = Case("carried out")
        patch.setattr(settings, "HOLDFAST_IDEMPOTENCY", {"store": store, **rules}, raising=False)
        self._app = django.IdempotencyMiddleware(self._view)

    def ask(self, case: Case) -> Told:
        from django.core.handlers.wsgi import WSGIRequest  # type: ignore[import-untyped]

        self._case = case
        told = Told()
        try:
            response = self._app(WSGIRequest(_environ(case)))
            told.begins(response.status_code, response.items())
            _sent(response, told, case.gone_at)
            case.happens(AFTER, _exit)
        except (AppFailedError, AttributeError, SystemExit) as error:
            told.error = error
        return told

    def _view(self, request: Any) -> Any:
        from django.http import HttpResponse, StreamingHttpResponse  # type: ignore[import-untyped]

        self.calls += 1
        self._case.happens(BEFORE, _exit)
        if self._case.ends_without_answer:
            return None
        kind = StreamingHttpResponse if self._case.parts is LONG or self._case.header is EVENTS else HttpResponse
        return kind(self._case.given(_exit), status=self._case.status, headers=dict([self._case.header]))


def _sent(parts: Any, told: Told, gone_at: int | None) -> None:
    """Send an answer to a client that goes away before the part *gone_at*."""
    try:
        for number, part in enumerate(parts):
            if number == gone_at:
                return
            told.body += part
    finally:
        if hasattr(parts, "close"):
            parts.close()


@pytest.fixture(params=["asgi", "wsgi", "django"])
def serve(
    request: pytest.FixtureRequest, store: SyncIdempotencyStore, monkeypatch: pytest.MonkeyPatch
) -> Callable[[dict[str, Any]], Any]:
    if request.param == "asgi":
        return ASGIServer
    if request.param == "wsgi":
        return lambda rules: WSGIServer(rules, store)
    request.getfixturevalue("django_project")
    return lambda rules: DjangoServer(rules, store, monkeypatch)


@pytest.mark.parametrize("name", CASES)
def test_key_of_a_request(serve: Callable[[dict[str, Any]], Any], monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    case = CASES[name]
    if case.store_is_away:
        monkeypatch.setattr(InMemoryIdempotencyStore, "_finish", _away)
    server = serve({"max_response_bytes": MOST, **case.rules})
    first, calls = server.ask(case), 1 if case.request_is_whole else 0
    assert server.calls == calls
    if case.fails_at not in {None, AFTER}:
        assert type(first.error) is AppFailedError
    elif case.stopped_at not in {None, AFTER}:
        assert type(first.error) is server.stopped
    elif case.store_is_away:
        assert (first.status, first.body) == (case.status, b"".join(case.parts))
    again = server.ask(Case(case.retry, case.parts, header=case.header))
    assert again.error is None
    assert server.calls == calls + (case.retry == "carried out")
    _compare(case, again)


async def _away(*args: Any) -> bool:
    raise Unavailable("away")


def _compare(case: Case, again: Told) -> None:
    whole = b"".join(case.parts)
    is_replay = again.headers.get("idempotency-replayed") == "true"
    if case.retry in {"carried out", "answered"}:
        assert (again.status, again.body, is_replay) == (200, whole, case.retry == "answered")
    else:
        title = b"The answer is not kept" if case.retry == NOT_KEPT else b"A request is outstanding"
        assert (again.status, is_replay) == (409, False)
        assert title in again.body
