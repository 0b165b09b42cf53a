"""By which server a database is held, as a pipeline asks: one that is started again is the same."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from holdfast.db import ConnectionManager, DialectName
from holdfast.db.queries.queries import Queries

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.testing.servers import Server

KINDS = ["postgres", "mariadb"]


def server_of(url: str) -> str | None:
    async def ask() -> str | None:
        async with ConnectionManager(url) as manager:
            [row] = await manager.fetch(Queries.load(manager.dialect)["server_here"])
            server: str | None = row["server"]
            return server

    return asyncio.run(ask())


@pytest.mark.parametrize("kind", KINDS)
def test_server_that_is_started_again_is_the_same(kind: str, own_server: Callable[..., Server]) -> None:
    server = own_server(kind)
    before = server_of(server.url)
    assert before
    server.kill()
    server.start()
    assert server_of(server.url) == before


def test_postgres_tells_a_user_without_rights(fresh_database: Callable[[str], str]) -> None:
    url = fresh_database("postgres")
    parts = urlsplit(url)

    async def role(*statements: str) -> None:
        async with ConnectionManager(url) as manager:
            for statement in statements:
                await manager.execute(statement)

    name = parts.path.strip("/") + "_guest"
    asyncio.run(role(f"CREATE ROLE {name} LOGIN PASSWORD 'guest'"))
    try:
        assert server_of(parts._replace(netloc=f"{name}:guest@{parts.hostname}:{parts.port}").geturl()) == server_of(
            url
        )
    finally:
        asyncio.run(role(f"DROP ROLE {name}"))


def test_sqlite_has_no_server() -> None:
    assert "server_here" not in Queries.load(DialectName.SQLITE).names()
