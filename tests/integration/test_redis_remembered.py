"""A record in Redis that is changed without being read first: the clock of the server decides, not the one here."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from holdfast.stores import AsyncRedisDLQRepository
from holdfast.stores.dead_letters import remembered
from holdfast.stores.redis import RedisLink

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize("fast_by", [0.05, 50.0])
def test_operation_is_due_at_once_though_the_clock_here_goes_fast(
    fresh_database: Callable[[str], str], monkeypatch: pytest.MonkeyPatch, fast_by: float
) -> None:
    ahead = 0.0

    def fast() -> float:
        nonlocal ahead
        ahead += fast_by
        return time.monotonic() + ahead

    monkeypatch.setattr(remembered, "monotonic", fast)

    async def play() -> None:
        async with RedisLink(fresh_database("redis")) as link, AsyncRedisDLQRepository(link) as letters:
            entry = (await letters.create("d", "t", retry_delay=0)).id
            for _ in range(40):
                [taken] = await letters.acquire_due()
                assert await letters.return_replay_attempt(entry, token=taken.replay_token)

    asyncio.run(play())
