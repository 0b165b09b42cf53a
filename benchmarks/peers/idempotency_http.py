"""Two idempotency middlewares in front of the same application as ours. Argument: the URL of Redis."""

import asyncio
import itertools
import json
import logging
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from idemkit import IdempotencyMiddleware, InMemoryBackend, RedisBackend
from idempotency_header_middleware import IdempotencyHeaderMiddleware
from idempotency_header_middleware.backends import RedisBackend as HeaderRedisBackend
from redis.asyncio import Redis

logging.disable(logging.CRITICAL)
url = sys.argv[1]
body = b'{"sku": "book", "cents": 1900}'
numbers = itertools.count()


async def application(scope: Any, receive: Any, send: Any) -> None:  # noqa: ARG001 -- ASGI's signature
    await receive()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"15")]
    await send({"type": "http.response.start", "status": 201, "headers": headers})
    await send({"type": "http.response.body", "body": b'{"order": "17"}'})


async def call(app: Any, key: str) -> None:
    messages = [{"type": "http.request", "body": body, "more_body": False}]
    sent = []

    async def receive() -> Any:
        if not messages:
            await asyncio.sleep(3600)
        return messages.pop()

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"idempotency-key", key.encode()), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/orders", "query_string": b"", "headers": headers}
    await app(scope, receive, send)
    assert sent[0]["status"] == 201, sent


async def median(app: Any, key: Callable[[], str]) -> float:
    """Return the median of the best of seven rounds."""
    medians = []
    for _ in range(7):
        spans = []
        for _ in range(100):
            begun = time.perf_counter()
            await call(app, key())
            spans.append(time.perf_counter() - begun)
        medians.append(statistics.median(spans) * 1000)
    return min(medians)


async def main() -> None:
    apps = {
        "idemkit, redis": IdempotencyMiddleware(application, backend=RedisBackend(Redis.from_url(url))),
        "idemkit, memory": IdempotencyMiddleware(application, backend=InMemoryBackend()),
        "asgi-idempotency-header, redis": IdempotencyHeaderMiddleware(
            application, backend=HeaderRedisBackend(Redis.from_url(url))
        ),
    }
    bare = await median(application, lambda: "k")
    for name, app in apps.items():
        await call(app, f"{name} same")
        new = await median(app, lambda name=name: f"{name} {next(numbers)}")
        again = await median(app, lambda name=name: f"{name} same")
        print(json.dumps({"name": name, "new": new - bare, "again": again - bare}), flush=True)


asyncio.run(main())
