"""What a task or thread holds, as the stores remember it."""

from __future__ import annotations

import asyncio
import contextvars
import random
import tracemalloc
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


def test_single_claims_that_nobody_ends_are_forgotten_in_the_end() -> None:
    def scene() -> None:
        for number in range(15_000):
            tokens.hold(("queue", str(number)), "token")
        assert 10_000 <= len(tokens.all_held()) < 10_200
        assert tokens.held(("queue", "14999")) == tokens.held(("queue", "5000")) == "token"
        assert tokens.held(("queue", "4000")) is None

    _apart(scene)


def test_one_claim_more_makes_nobody_forget_what_one_call_has_claimed() -> None:
    def scene() -> None:
        tokens.hold_all({("queue", str(number)): "token" for number in range(25_000)})
        for number in range(200):
            tokens.hold(("another", str(number)), "token")
            tokens.let_go(("another", str(number)))
        assert len(tokens.all_held()) == 25_000

    _apart(scene)


def test_claim_copies_little_of_what_is_held() -> None:
    def scene() -> None:
        tokens.hold_all({("queue", str(number)): "token" for number in range(9000)})
        tracemalloc.start()
        try:
            for number in range(100):
                tokens.hold(("another", str(number)), "token")
                tokens.let_go(("queue", str(number)))
                tokens.let_go(("another", str(number)))
            assert tracemalloc.get_traced_memory()[1] < 100_000  # bytes at the most; all of them take 300,000
        finally:
            tracemalloc.stop()

    _apart(scene)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_held_is_what_was_claimed_and_not_ended_and_others_keep_what_they_inherited(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 -- a game, no secret
    known: dict[tokens.Item, str] = {}
    inherited: list[tuple[tokens.Tokens, list[tuple[tokens.Item, str]]]] = []

    def some(most: int) -> list[tokens.Item]:
        return [("queue", str(chance.randrange(600))) for _ in range(chance.randrange(1, most))]

    def scene() -> None:
        for turn in range(600):
            claimed = dict.fromkeys(some(chance.choice([2, 20, 300])), f"token {turn}")
            ended = some(chance.choice([2, 20, 300]))
            if len(claimed) == 1:
                tokens.hold(*next(iter(claimed.items())))
            else:
                tokens.hold_all(claimed)
            for item, token in claimed.items():
                known.pop(item, None)
                known[item] = token
            if len(ended) == 1:
                tokens.let_go(ended[0], chance.choice([None, known.get(ended[0])]))
                tokens.let_go(next(iter(claimed)), "another's")
            else:
                tokens.let_go_all([(item, known.get(item)) for item in ended])
                tokens.let_go_all([(item, "another's") for item in known])
            for item in ended:
                known.pop(item, None)
            assert list(tokens.all_held().items()) == list(known.items())
            assert [tokens.held(item) for item in ended] == [None] * len(ended)
            if turn % 50 == 0:
                inherited.append((tokens.all_held(), list(known.items())))

    _apart(scene)
    for held, then in inherited:
        assert list(held.items()) == then


def test_task_has_what_was_held_when_it_began_and_gives_nothing_back() -> None:
    async def child(begun: asyncio.Event, go_on: asyncio.Event) -> None:
        begun.set()
        await go_on.wait()
        assert dict(tokens.all_held()) == {("a",): "1"}
        tokens.let_go(("a",))
        tokens.hold(("c",), "3")

    async def scene() -> None:
        begun, go_on = asyncio.Event(), asyncio.Event()
        tokens.hold(("a",), "1")
        task = asyncio.create_task(child(begun, go_on))
        await begun.wait()
        tokens.hold(("b",), "2")
        go_on.set()
        await task
        assert dict(tokens.all_held()) == {("a",): "1", ("b",): "2"}

    asyncio.run(scene())


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
