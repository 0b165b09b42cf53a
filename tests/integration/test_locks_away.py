"""Locks whose database goes away: no block goes on beyond its lease, and nobody waits for longer than they said."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from holdfast.db import ConnectionManager
from holdfast.errors import LockLost, Unavailable
from holdfast.stores import SQLLockStore
from holdfast.stores.locks import keeper, store

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.testing.servers import Server


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_block_ends_with_its_lease_and_a_wait_in_time_while_the_database_is_away(
    kind: str, own_server: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (keeper, store):
        monkeypatch.setattr(module, "PATIENCE", 0.5)
    server = own_server(kind)

    async def main() -> None:
        async with ConnectionManager(server.create_database()) as manager, SQLLockStore(manager) as locks:
            async with asyncio.timeout(30):
                with pytest.raises(LockLost):
                    async with locks.lease("long", ttl=1.5):
                        server.kill()
                        await asyncio.Event().wait()
                with pytest.raises(Unavailable):
                    await locks.acquire("wanted", timeout=0.1)
                with pytest.raises(Unavailable):
                    await locks.acquire("wanted", blocking=False)
            await asyncio.to_thread(server.start)
            assert (await locks.acquire("wanted", timeout=60)) is not None  # what came too late was released
            assert (await locks.acquire("long", timeout=60)) is not None

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_block_that_ended_within_its_lease_ended_well_though_the_database_is_away(
    kind: str, own_server: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "PATIENCE", 0.5)
    server = own_server(kind)

    async def main() -> None:
        async with ConnectionManager(server.create_database()) as manager, SQLLockStore(manager) as locks:
            async with asyncio.timeout(30):
                async with locks.lease("k", ttl=600):
                    server.kill()
            await asyncio.to_thread(server.start)
            assert (await locks.acquire("k", timeout=60)) is not None  # it was given back when that could be

    asyncio.run(main())
