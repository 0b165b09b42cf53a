"""What a type checker must say about the middlewares. Never run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.web import IdempotencyMiddleware, WSGIIdempotencyMiddleware

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


async def asgi(scope: Any, receive: Any, send: Any) -> None: ...


def wsgi(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    return [b"done"]


def tenant(scope: Any) -> str | None:
    return None


IdempotencyMiddleware(asgi, store="shop.db", client=tenant, methods=["POST"], include_headers={"X-Tenant"})
WSGIIdempotencyMiddleware(wsgi, store="shop.db", methods={"POST", "PUT"}, unstored_headers=("X-Secret",))
WSGIIdempotencyMiddleware(wsgi, store="shop.db", required=["/pay"], exclude=lambda method, path: path == "/free")
WSGIIdempotencyMiddleware(wsgi, store="shop.db", methods=5)  # type: ignore[arg-type]
WSGIIdempotencyMiddleware(wsgi, store="shop.db", wait="long")  # type: ignore[call-arg]
