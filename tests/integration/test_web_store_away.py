"""Requests with an idempotency key while the database of the keys is away: each has its answer, and soon."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from holdfast.web import IdempotencyMiddleware, patience

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.testing.servers import Server


class Shop:
    """An application whose database of keys goes away while it carries an order out, if it is told so."""

    def __init__(self, server: Server) -> None:
        self.orders = 0
        self._server = server

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.orders += 1
        if scope["path"] == "/kill":
            self._server.kill()
        await send({"type": "http.response.start", "status": 201, "headers": []})
        await send({"type": "http.response.body", "body": b"order %d" % self.orders})


async def asked(client: httpx.AsyncClient, path: str, key: str) -> tuple[int, bytes]:
    """Return status and body of an answer, which must come."""
    async with asyncio.timeout(30):
        answer = await client.post(path, headers={"Idempotency-Key": key})
    return answer.status_code, answer.content


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_requests_are_answered_while_the_database_of_the_keys_is_away(
    kind: str, own_server: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "PATIENCE", 0.5)
    server = own_server(kind)
    shop = Shop(server)

    async def main() -> None:
        app = IdempotencyMiddleware(shop, store=server.create_database(), lease_seconds=600, wait_seconds=20)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://shop") as client:
            assert await asked(client, "/", "first") == (201, b"order 1")
            assert await asked(client, "/kill", "during") == (201, b"order 2")  # carried out, so the client hears of it
            assert (await asked(client, "/", "after"))[0] == 503
            assert shop.orders == 2, "it was not carried out"
            await asyncio.to_thread(server.start)
            monkeypatch.setattr(patience, "PATIENCE", 60.0)
            assert await asked(client, "/", "after") == (201, b"order 3")  # its claim was given up
            assert await asked(client, "/kill", "during") == (201, b"order 2")  # stored when the database was back
        app.app = _over
        await app({"type": "lifespan"}, None, None)  # type: ignore[arg-type]

    asyncio.run(main())


async def _over(scope: Any, receive: Any, send: Any) -> None:
    """End at once."""
