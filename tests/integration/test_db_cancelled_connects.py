"""Calls that are cancelled while their connection is being made: nothing is logged, and no connection is left."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.db import ConnectionManager
from holdfast.testing.contract.store_task_worker import until

if TYPE_CHECKING:
    from collections.abc import Callable

_ROUNDS = 40  # of the loop, until a connection is made and settled in
CONNECTED = {
    "postgres": "SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database()",
    "mariadb": "SELECT count(*) AS n FROM information_schema.processlist WHERE db = database()",
}


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_call_that_is_cancelled_while_it_connects_leaves_no_error_and_no_connection(
    kind: str, fresh_database: Callable[[str], str]
) -> None:
    url = fresh_database(kind)
    told: list[dict[str, Any]] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        for rounds in range(_ROUNDS):
            manager = ConnectionManager(url)
            opening = asyncio.ensure_future(manager.initialize())
            for _ in range(rounds):
                await asyncio.sleep(0)
            if not opening.cancel():  # it had come to its end
                await manager.close()
                break
            with pytest.raises(asyncio.CancelledError):
                await opening
        async with ConnectionManager(url) as manager:

            async def is_alone() -> bool:
                row = await manager.fetchone(CONNECTED[kind])
                return row is not None and row["n"] == 1

            await until(is_alone)
        gc.collect()

    asyncio.run(main())
    gc.collect()
    assert told == []
