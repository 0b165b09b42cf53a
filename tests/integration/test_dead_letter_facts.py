"""A lost reply: what was made is found again, whatever has become of it since."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from holdfast.db import ConnectionManager
from holdfast.stores import AsyncSQLFailedOperationRepository
from holdfast.stores.dead_letters import rows
from holdfast.stores.dead_letters.facts import AddLetters
from holdfast.stores.dead_letters.queries import dead_letter_queries

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize("database", ["sqlite", "postgres", "mariadb"])
def test_letter_that_somebody_changed_since_is_recalled_as_made(
    fresh_database: Callable[[str], str], database: str
) -> None:
    async def play() -> None:
        async with (
            ConnectionManager(fresh_database(database)) as manager,
            AsyncSQLFailedOperationRepository(manager) as letters,
        ):
            made = await letters.create("shop", "timeout")
            assert await letters.try_acquire_for_replay(made.id, 3) is not None
            kind = AddLetters(dead_letter_queries(manager.dialect, "holdfast"))
            row = rows.fresh_row(made, made.id)
            assert await manager.run(lambda transaction: kind.recall(transaction, [row])) == [rows.iso(made.created_at)]

    asyncio.run(play())
