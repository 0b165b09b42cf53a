"""A program that serves one request through the WSGI middleware, and ends as servers' workers do: it closes nothing."""

from __future__ import annotations

import json
import sys
from typing import Any
from wsgiref.util import setup_testing_defaults

from holdfast.web import WSGIIdempotencyMiddleware


def shop(environ: Any, start_response: Any) -> list[bytes]:
    start_response("201 Created", [])
    return [b"done"]


environ: dict[str, Any] = {"REQUEST_METHOD": "POST", "HTTP_IDEMPOTENCY_KEY": "order-17"}
setup_testing_defaults(environ)
web = WSGIIdempotencyMiddleware(shop, store=json.loads(sys.argv[1])["url"])
print(b"".join(web(environ, lambda *_: None)).decode())
sys.exit(0)
