"""What a task or thread holds, as the stores remember it."""

from __future__ import annotations

import asyncio
import contextvars
from typing import TYPE_CHECKING

import pytest

from holdfast.db import ConnectionManager
from holdfast.errors import NotInitialized
from holdfast.stores import DBIdempotencyStore, InMemoryIdempotencyStore, tokens

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def _apart(scene: Callable[[], None]) -> None:
    contextvars.Context().run(scene)


def test_all_that_one_call_has_claimed_is_held() -> None:
    def scene() -> None:
        claimed: dict[tuple[str, ...], str] = {("queue", str(number)): f"token {number}" for number in range(25_000)}
        tokens.hold_all(claimed)
        assert tokens.all_held() == claimed

    _apart(scene)


def test_claims_that_nobody_ends_are_forgotten_in_the_end() -> None:
    def scene() -> None:
        for batch in range(30):
            tokens.hold_all({("queue", f"{batch}-{number}"): "token" for number in range(1000)})
        assert len(tokens.all_held()) == 10_000
        assert tokens.held(("queue", "29-0")) == "token"
        assert tokens.held(("queue", "0-0")) is None

    _apart(scene)


def test_key_whose_release_did_not_reach_the_store_is_released_by_the_next_try(tmp_path: Path) -> None:
    async def scene() -> None:
        manager = ConnectionManager(tmp_path / "keys.db")
        store = DBIdempotencyStore(manager)
        await store.initialize()
        assert await store.try_claim("k", "f")
        await store.close()
        await manager.close()
        with pytest.raises(NotInitialized):
            await store.release_claim("k")
        await store.initialize()
        assert await store.release_claim("k")
        await store.close()
        await manager.close()

    asyncio.run(scene())


def test_claim_that_another_token_could_not_release_is_still_held() -> None:
    async def scene() -> None:
        store = InMemoryIdempotencyStore()
        assert await store.try_claim("k", "f")
        assert not await store.release_claim("k", token="another's")
        await store.store_result("k", 1)

    asyncio.run(scene())
