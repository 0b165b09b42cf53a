"""Flow checkpoints in a database whose replies get lost, after the write has landed or before."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from holdfast.db import ConnectionManager
from holdfast.errors import UnknownCommit
from holdfast.model.world import RealWorld
from holdfast.stores.flow.shelf import Card, Put
from holdfast.stores.flow.sql_shelf import SQLShelf

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path


T = TypeVar("T")


class Forgetful(ConnectionManager):
    """A real database that loses the reply to the next write; it has landed or not."""

    losing: str | None = None

    async def execute(self, sql: Any, *args: Any, **named: Any) -> int:
        return await self._lost(lambda: super(Forgetful, self).execute(sql, *args, **named))

    async def run(self, work: Any, *, isolation: str | None = None) -> Any:
        return await self._lost(lambda: super(Forgetful, self).run(work, isolation=isolation))

    async def _lost(self, call: Callable[[], Awaitable[T]]) -> T:
        when, self.losing = self.losing, None
        if when == "before":
            raise UnknownCommit("the connection broke")
        result = await call()
        if when == "after":
            raise UnknownCommit("the connection broke")
        return result


def card(checkpoint_id: str, revision: int = 1, status: str = "active", data: bytes = b"{}") -> Card:
    return Card(checkpoint_id, "f", "r", "r", status, None, "2026-01-01", "2026-01-01", None, revision, data)


def play(tmp_path: Path, scene: Callable[[Forgetful, SQLShelf], Awaitable[None]]) -> None:
    async def main() -> None:
        manager = Forgetful(tmp_path / "flows.db")
        shelf = SQLShelf(manager, RealWorld())
        await shelf.initialize()
        try:
            await scene(manager, shelf)
        finally:
            await shelf.close()

    asyncio.run(main())


BOTH = pytest.mark.parametrize("when", ["before", "after"])


@BOTH
def test_write_is_stored_once(tmp_path: Path, when: str) -> None:
    async def scene(manager: Forgetful, shelf: SQLShelf) -> None:
        manager.losing = when
        assert await shelf.put(card("1"), 0) is Put.STORED
        manager.losing = when
        assert await shelf.put(card("1", 2, data=b"[]"), 1) is Put.STORED
        found = await shelf.get("1")
        assert found is not None
        assert (found.revision, found.data) == (2, b"[]")
        manager.losing = when
        assert await shelf.put(card("1", 2), 1) is Put.STALE
        manager.losing = when
        assert await shelf.put(card("2", 2), 1) is Put.MISSING

    play(tmp_path, scene)


@BOTH
def test_claim_passes_on_once(tmp_path: Path, when: str) -> None:
    async def scene(manager: Forgetful, shelf: SQLShelf) -> None:
        await shelf.put(card("1"), 0)
        manager.losing = when
        assert await shelf.claim("1", "mine", 60) is True
        manager.losing = when
        assert await shelf.claim("1", "yours", 60) is False
        manager.losing = when
        assert await shelf.follow(card("2"), "1", "mine", 60) is Put.STORED
        assert await shelf.extend("2", "mine", 60) is True
        assert await shelf.extend("1", "mine", 60) is False
        manager.losing = when
        assert await shelf.follow(card("3"), "1", "mine", 60) is Put.LOST
        assert await shelf.get("3") is None
        manager.losing = when
        assert await shelf.release("2", "mine") is True
        assert await shelf.claim("2", "yours", 60) is True

    play(tmp_path, scene)


@BOTH
def test_deleted_is_gone(tmp_path: Path, when: str) -> None:
    async def scene(manager: Forgetful, shelf: SQLShelf) -> None:
        await shelf.put(card("1"), 0)
        manager.losing = when
        assert await shelf.delete("1") is True
        assert await shelf.get("1") is None

    play(tmp_path, scene)
