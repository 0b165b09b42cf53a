"""Dead letters of a queue in Redis, while what keeps the letters is away."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from holdfast.stores import RedisLink, RedisTaskQueue
from holdfast.stores.tasks import redis as queues
from holdfast.testing.contract.store_task_worker import until

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


def test_tasks_are_ended_and_taken_though_letters_have_to_wait(
    fresh_database: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues, "PATIENCE", 0.05)

    class Away:
        def __init__(self) -> None:
            self.back = asyncio.Event()
            self.letters: list[str] = []

        async def enqueue(self, workflow_id: str, *_: Any, **__: Any) -> str:
            await self.back.wait()
            self.letters.append(workflow_id)
            return workflow_id

    async def scene() -> None:
        sink = Away()
        async with RedisLink(fresh_database("redis")) as link, RedisTaskQueue(link, dead_letters=sink) as queue:
            dead, good = await queue.enqueue_many(["dead", "good"], max_attempts=1)
            await queue.dequeue()
            assert await queue.fail(dead, "why")
            taken = await queue.dequeue()
            assert taken is not None
            assert taken.task_id == good
            assert await queue.purge() == 0  # its letter is still to be made
            sink.back.set()

            async def is_made() -> bool:
                return await queue.purge() == 1

            await until(is_made)
            assert sink.letters == [dead]

    asyncio.run(asyncio.wait_for(scene(), 60))
