"""Idempotency keys in a Django project.

In its settings::

    MIDDLEWARE = ["holdfast.web.django.IdempotencyMiddleware", ...]
    HOLDFAST_IDEMPOTENCY = {"store": "postgresql://...", "required": ["/payments/*"]}
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from django.conf import settings  # type: ignore[import-untyped]
from django.core.exceptions import ImproperlyConfigured  # type: ignore[import-untyped]
from django.http import HttpRequest, HttpResponse  # type: ignore[import-untyped]
from django.utils.module_loading import import_string  # type: ignore[import-untyped]

from holdfast.errors import MisuseError
from holdfast.web.blocking import BlockingGate
from holdfast.web.core import Answer, Refused, Request, Rules
from holdfast.web.settings import client_function

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.http.response import HttpResponseBase  # type: ignore[import-untyped]

    from holdfast.web.gate import Pass

_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding"}  # Django's server refuses these from an application


class IdempotencyMiddleware:
    """Has each request with an ``Idempotency-Key`` carried out once, and answers its retries with the stored answer.

    The setting ``HOLDFAST_IDEMPOTENCY`` has the ``store``, a database's URL or a ``SyncIdempotencyStore``; ``client``,
    a function or its dotted name that tells from a request whose it is; and the settings of ``Rules``.
    """

    sync_capable = True
    async_capable = False

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response
        given = dict(getattr(settings, "HOLDFAST_IDEMPOTENCY", {}))
        if "store" not in given:
            raise ImproperlyConfigured('HOLDFAST_IDEMPOTENCY needs a "store": the URL of a database, or a store.')
        store, client = given.pop("store"), given.pop("client", None)
        self._client: Callable[[HttpRequest], str | None] | None = client_function(
            import_string(client) if isinstance(client, str) else client
        )
        self._gate = BlockingGate(Rules(**given), store)

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Serve one request."""
        rules = self._gate.rules
        asked = self._request(request)
        try:
            key = rules.key_of(asked)
            if key is None:
                return self.get_response(request)
            body = _whole(request, rules)
        except Refused as refused:
            return _response(refused.answer)
        found = self._gate.enter(key, asked, body)
        if isinstance(found, Answer):
            return _response(found)
        try:
            response = self.get_response(request)
            self._store(found, response)
        except BaseException:
            self._gate.abandon(found)
            raise
        return response

    def close(self) -> None:
        """Close the store, if it was named by a URL."""
        self._gate.close()

    def _store(self, granted: Pass, response: HttpResponseBase) -> None:
        headers = [(name.lower(), value) for name, value in response.items()]
        keep = isinstance(response, HttpResponse)
        body = response.content if isinstance(response, HttpResponse) else b""
        self._gate.leave(granted, Answer(response.status_code, headers, body), keep=keep)

    def _request(self, request: HttpRequest) -> Request:
        headers = [(name.lower(), value) for name, value in request.headers.items()]
        client = None if self._client is None else self._client(request)
        query = request.META.get("QUERY_STRING", "").encode("latin-1", "surrogateescape")
        return Request(request.method or "GET", request.path, query, headers, client)


def _whole(request: HttpRequest, rules: Rules) -> bytes:
    """Return the body of a request, and leave it to be read; ``Refused`` if it is too large, or its client has gone.

    ``request.body`` would refuse uploads that Django takes: its limit, which stays, is for what is no file.
    """
    if request._read_started and not hasattr(request, "_body"):  # noqa: SLF001 -- what is left of it is not all
        raise MisuseError(
            "A middleware has read the request before the one of idempotency keys, so that it cannot be told from "
            "another one: put holdfast.web.django.IdempotencyMiddleware before it in MIDDLEWARE."
        )
    told = rules.length(request.META.get("CONTENT_LENGTH")) or 0
    body: bytes = request.body if hasattr(request, "_body") else request.read(rules.max_body_bytes + 1)
    if len(body) > rules.max_body_bytes:
        raise Refused(rules.too_large())
    if len(body) < told:
        raise Refused(rules.incomplete())
    if not hasattr(request, "_body"):
        request._stream, request._read_started = io.BytesIO(body), False  # noqa: SLF001 -- as nobody had read it
    return body


def _response(answer: Answer) -> HttpResponse:
    response = HttpResponse(answer.body, status=answer.status)
    del response["content-type"]
    for name, value in answer.headers:
        if name not in _HOP_BY_HOP:
            response[name] = value
    return response


__all__ = ["IdempotencyMiddleware"]
