"""Blocks of code that hold a lock, and fail while its storage is away."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from holdfast.db import ConnectionManager
from holdfast.db.portal import Portal
from holdfast.errors import HoldfastError
from holdfast.stores import SQLLockStore, SyncLockStore

if TYPE_CHECKING:
    from pathlib import Path


def test_error_of_the_block_is_the_one_that_is_raised(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> None:
        manager = ConnectionManager(tmp_path / "locks.db")
        locks = SQLLockStore(manager)
        await locks.initialize()
        with pytest.raises(ZeroDivisionError):
            async with locks.lease("report"):
                await manager.close()
                raise ZeroDivisionError

    asyncio.run(scene())
    assert "The lock report could not be given back" in caplog.text


def test_error_of_the_block_is_the_one_that_is_raised_in_a_thread(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    portal = Portal()
    portal.start()
    manager = ConnectionManager(tmp_path / "locks.db")
    locks = SyncLockStore(SQLLockStore(manager), portal)
    locks.initialize()
    with pytest.raises(ZeroDivisionError), locks.lease("report"):
        portal.call(manager.close())
        raise ZeroDivisionError
    portal.stop()
    assert "The lock report could not be given back" in caplog.text


def test_block_that_ended_well_says_that_its_lock_could_not_be_given_back(tmp_path: Path) -> None:
    async def scene() -> None:
        manager = ConnectionManager(tmp_path / "locks.db")
        locks = SQLLockStore(manager)
        await locks.initialize()
        with pytest.raises(HoldfastError):
            async with locks.lease("report"):
                await manager.close()

    asyncio.run(scene())
