"""Saves of checkpoints that are cancelled while the database is busy: what their caller does next comes after them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from holdfast.db import ConnectionManager
from holdfast.stores import DBCheckpointStore

if TYPE_CHECKING:
    from collections.abc import Callable

LOCK = {
    "postgres": "UPDATE holdfast.holdfast_checkpoints SET size_bytes = 1",
    "mariadb": "UPDATE holdfast_checkpoints SET size_bytes = 1",
}


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
@pytest.mark.parametrize("key", ["busy", "behind"], ids=["being_written", "waiting_to_be_written"])
def test_deleted_checkpoint_does_not_come_back_with_a_save_that_was_cancelled_before(
    kind: str, key: str, fresh_database: Callable[[str], str]
) -> None:
    url = fresh_database(kind)

    async def main() -> None:
        async with (
            ConnectionManager(url) as manager,
            ConnectionManager(url) as other,
            DBCheckpointStore(manager) as store,
        ):
            await store.save("busy", b"old")
            async with other.transaction() as transaction:
                await transaction.execute(LOCK[kind])
                for each in dict.fromkeys(("busy", key)):
                    with pytest.raises(TimeoutError):
                        async with asyncio.timeout(0.2):
                            await store.save(each, b"new")
                deleting = asyncio.ensure_future(store.delete(key))
                assert not (await asyncio.wait([deleting], timeout=0.1))[0], "It overtook the save."
            assert await deleting
            await store.save("last", b"")  # comes after whatever was handed over
            assert await store.load(key) is None
            assert await store.delete(key) is False, "Nothing is waited for any more."

    asyncio.run(main())
