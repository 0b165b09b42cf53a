"""Claims, locks and tasks whose callers are cancelled while the database is away: they hear of it, and hold nothing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.db import ConnectionManager
from holdfast.stores import DBIdempotencyStore, SQLLockStore, SQLTaskQueue, commits
from holdfast.testing.contract.store_task_worker import until

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from holdfast.testing.servers import Server


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_caller_that_is_cancelled_while_the_database_is_away_hears_of_it_and_holds_nothing(
    kind: str, own_server: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits, "PATIENCE", 0.5)
    server = own_server(kind)

    async def main() -> None:
        async with (
            ConnectionManager(server.create_database()) as manager,
            DBIdempotencyStore(manager) as keys,
            SQLLockStore(manager) as locks,
            SQLTaskQueue(manager) as queue,
        ):
            await queue.enqueue_many(["a", "b"])
            assert await queue.dequeue() is not None  # the first of them is taken
            server.kill()
            asking: list[Coroutine[Any, Any, Any]] = [
                keys.claim("k", "f", lease_seconds=3600),
                locks.acquire("k", ttl=3600),
                queue.dequeue_many(9),
            ]
            for work in asking:
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.1):
                        await work
            await asyncio.to_thread(server.start)

            async def has_key() -> bool:
                return await keys.try_claim("k", "f")

            async def has_task() -> bool:
                return await queue.dequeue() is not None

            await until(has_key)
            await until(has_task)
            assert await locks.acquire("k", timeout=60) is not None

    asyncio.run(main())
