"""A listing in any status is one look at the table: a record that changes its status meanwhile is seen once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from holdfast.db import ConnectionManager
from holdfast.stores import AsyncSQLFailedOperationRepository

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 60


@pytest.mark.parametrize("database", ["sqlite", "postgres", "mariadb"])
def test_record_that_moves_from_status_to_status_is_listed_once(
    fresh_database: Callable[[str], str], database: str
) -> None:
    async def play() -> None:
        async with (
            ConnectionManager(fresh_database(database)) as manager,
            AsyncSQLFailedOperationRepository(manager) as letters,
        ):
            every = {(await letters.create("shop", "timeout")).id for _ in range(5)}
            at_rest = asyncio.Event()

            async def move() -> None:
                while not at_rest.is_set():
                    for status in ("reviewing", "pending"):
                        await letters.bulk_update_status(sorted(every), status)

            moving = asyncio.create_task(move())
            try:
                for _ in range(ROUNDS):
                    seen = [record.id for record in await letters.find(domain="shop", failure_type="timeout")]
                    assert len(seen) == len(every)
                    assert set(seen) == every
            finally:
                at_rest.set()
                await moving

    asyncio.run(play())
