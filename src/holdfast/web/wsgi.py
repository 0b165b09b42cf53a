"""Idempotency keys in front of any WSGI application: Flask, Pyramid, Bottle and others."""

from __future__ import annotations

import io
from http import HTTPStatus
from itertools import chain
from typing import TYPE_CHECKING, Any, Unpack

from holdfast.errors import MisuseError
from holdfast.web.blocking import BlockingGate
from holdfast.web.core import Answer, Refused, Request, Rules, RuleSettings
from holdfast.web.settings import client_function

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator

    from holdfast.stores.idempotency.blocking import SyncIdempotencyStore
    from holdfast.web.gate import Pass

    Environ = dict[str, Any]
    StartResponse = Callable[..., Any]
    Application = Callable[[Environ, StartResponse], Iterable[bytes]]


class WSGIIdempotencyMiddleware:
    """Has each request with an ``Idempotency-Key`` carried out once, and answers its retries with the stored answer.

    *store* is a ``SyncIdempotencyStore``, or the URL of a database. *client* tells from the environment whose request
    it is. The other settings are those of ``Rules``. Answers longer than ``max_response_bytes``, and streams of events,
    are sent as they come: their status is stored before.
    """

    def __init__(
        self,
        app: Application,
        *,
        store: SyncIdempotencyStore | str | os.PathLike[str],
        client: Callable[[Environ], str | None] | None = None,
        **rules: Unpack[RuleSettings],
    ) -> None:
        self.app = app
        self._gate = BlockingGate(Rules(**rules), store)
        self._client = client_function(client)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Serve one request."""
        rules = self._gate.rules
        request = self._request(environ)
        try:
            key = rules.key_of(request)
            if key is None:
                return self.app(environ, start_response)
            body = _whole(environ, rules)
        except Refused as refused:
            return _answer(start_response, refused.answer)
        found = self._gate.enter(key, request, body)
        if isinstance(found, Answer):
            return _answer(start_response, found)
        environ["wsgi.input"] = io.BytesIO(body)
        environ["CONTENT_LENGTH"] = str(len(body))
        try:
            return self._carried_out(found, environ, start_response)
        except BaseException:
            self._gate.abandon(found)
            raise

    def close(self) -> None:
        """Close the store, if it was named by a URL."""
        self._gate.close()

    def _carried_out(self, granted: Pass, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        most = self._gate.rules.max_response_bytes
        started = _Started()
        parts = self.app(environ, started)
        try:
            held, rest = _held(started, parts, most)
            self._gate.leave(granted, started.answer(held), keep=rest is None)
            started.tell(start_response)
        except BaseException:
            _end(parts)
            raise
        if rest is not None:
            return _Closing(chain([held], rest), parts)
        _end(parts)
        return [held]

    def _request(self, environ: Environ) -> Request:
        headers = [
            (name.removeprefix("HTTP_").replace("_", "-").lower(), value)
            for name, value in environ.items()
            if name.startswith("HTTP_") or name in {"CONTENT_TYPE", "CONTENT_LENGTH"}
        ]
        path = _readable(environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", ""))
        client = None if self._client is None else self._client(environ)
        query = environ.get("QUERY_STRING", "").encode("latin-1")
        return Request(environ["REQUEST_METHOD"].upper(), path, query, headers, client)


class _Started:
    """The ``start_response`` that an application is given: it remembers what it was called with, until that is told."""

    def __init__(self) -> None:
        self._status: str | None = None
        self._headers: list[tuple[str, str]] = []
        self._told: StartResponse | None = None
        self.is_stream = False
        self.written: list[bytes] = []

    def __call__(self, status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Callable[[bytes], Any]:
        if self._told is not None:  # too late for another answer: the server raises the application's error
            write: Callable[[bytes], Any] = self._told(status, headers, exc_info)
            return write
        self._status, self._headers = status, headers
        self.is_stream = self.answer(b"").is_stream
        return self.written.append

    def answer(self, body: bytes) -> Answer:
        if self._status is None:
            raise MisuseError("The application has ended without an answer: it must call start_response() for each.")
        return Answer(
            int(self._status.split(" ", 1)[0]), [(name.lower(), value) for name, value in self._headers], body
        )

    def tell(self, start_response: StartResponse) -> None:
        start_response(self._status, self._headers)
        self._told = start_response


class _Closing:
    """An answer that is sent as it comes, and whose application is told when it is over."""

    def __init__(self, parts: Iterator[bytes], closed: Any) -> None:
        self._parts = parts
        self._closed = closed

    def __iter__(self) -> Iterator[bytes]:
        return self._parts

    def close(self) -> None:
        _end(self._closed)


def _held(started: _Started, parts: Iterable[bytes], most: int) -> tuple[bytes, Iterator[bytes] | None]:
    """Return the whole body; or its beginning and the rest, if it is longer than may be held or must not be."""
    body = bytearray()
    coming = iter(parts)
    for part in coming:
        body += part
        if started.is_stream or len(body) + sum(map(len, started.written)) > most:
            return b"".join(started.written) + bytes(body), coming
    whole = b"".join(started.written) + bytes(body)
    return whole, None if len(whole) <= most else coming


def _end(parts: Any) -> None:
    close = getattr(parts, "close", None)
    if close is not None:
        close()


def _readable(path: str) -> str:
    """Return a path as it is read, and as patterns are written: a server gives its bytes as Latin-1."""
    try:
        return path.encode("latin-1").decode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # it did not, and this is the path
        return path


def _whole(environ: Environ, rules: Rules) -> bytes:
    """Return the body of a request; ``Refused`` if it is too large to be held, or its client has gone."""
    told = rules.length(environ.get("CONTENT_LENGTH"))
    untold = rules.max_body_bytes + 1 if environ.get("wsgi.input_terminated") else 0
    length = untold if told is None else told
    body: bytes = environ["wsgi.input"].read(length) if length else b""
    if len(body) > rules.max_body_bytes:
        raise Refused(rules.too_large())
    if told is not None and len(body) < told:
        raise Refused(rules.incomplete())
    return body


def _answer(start_response: StartResponse, answer: Answer) -> list[bytes]:
    try:
        phrase = HTTPStatus(answer.status).phrase
    except ValueError:
        phrase = "Unknown"
    start_response(f"{answer.status} {phrase}", answer.headers)
    return [answer.body]


__all__ = ["WSGIIdempotencyMiddleware"]
