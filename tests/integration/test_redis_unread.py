"""A dead letter in Redis that nobody has changed yet is acquired in one trip; what is otherwise is read and decided."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import asdict

from holdfast.core.dead_letters import Standing
from holdfast.stores import AsyncRedisDLQRepository
from holdfast.stores.dead_letters import remembered
from holdfast.stores.redis import RedisLink

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from holdfast.model.dead_letter import FailedOperationData


class Watched(RedisLink):
    """Notes which scripts are run. *lost* runs the next ``write`` twice, and tells the second answer."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.ran: list[str] = []
        self.lost: Callable[[], Awaitable[Any]] | None = None

    async def run(self, script: Path, keys: Sequence[str], args: Sequence[Any] = (), *, again: bool = False) -> Any:
        self.ran.append(script.stem)
        if self.lost is not None and script.stem == "write":
            meanwhile, self.lost = self.lost, None
            await super().run(script, keys, args, again=again)
            await meanwhile()
        return await super().run(script, keys, args, again=again)


def play(url: str, scene: Callable[..., Awaitable[None]]) -> None:
    """Play with one repository that makes letters, and one that has not, and knows the server's time."""

    async def main() -> None:
        async with RedisLink(url) as plain, Watched(url) as link:
            makes, replays = AsyncRedisDLQRepository(plain), AsyncRedisDLQRepository(link)
            assert await replays.get_by_id("none") is None
            link.ran.clear()
            await scene(makes, replays, link)

    asyncio.run(main())


def contents(record: FailedOperationData | None) -> dict[str, Any]:
    assert record is not None
    return {name: value for name, value in asdict(record).items() if name not in Standing.__struct_fields__}


WHOLE: dict[str, Any] = {
    "error_message": 'says "no", \\ and ü',
    "entity_refs": {"order": [1, {"a": None}]},
    "user_id": 7,
    "request_data": {"status": "resolved", "retry_count": 9},
    "metadata": {"version": 3},
    "error": "in full",
    "payload": {"replay_token": "not this"},
}


@pytest.mark.parametrize("words", [("d", "t"), ("two words: 3", "12:x"), ("ü€", "né e"), ("1", "1:1 1")])
def test_letter_nobody_has_changed_is_acquired_in_one_trip(
    fresh_database: Callable[[str], str], words: tuple[str, str]
) -> None:
    async def scene(makes: AsyncRedisDLQRepository, replays: AsyncRedisDLQRepository, link: Watched) -> None:
        made = await makes.create(*words, **WHOLE)
        taken = await replays.try_acquire_for_replay(made.id, 3)
        assert link.ran == ["write"]
        assert taken is not None
        assert (taken.status, taken.retry_count, taken.version) == ("replaying", 1, 2)
        assert contents(taken) == contents(made)
        assert await makes.get_by_id(made.id) == taken
        assert [each.id for each in await makes.find(status="replaying", domain=words[0], failure_type=words[1])] == [
            made.id
        ]
        assert await makes.find(status="pending") == []
        assert await makes.count(status="replaying", domain=words[0], failure_type=words[1]) == 1

        assert await replays.complete_replay(made.id, True, "replayed")
        assert link.ran == ["write", "write"]
        ended = await makes.get_by_id(made.id)
        assert contents(ended) == contents(made) | {
            "resolution_type": "replayed",
            "resolved_at": ended and ended.updated_at,
        }

    play(fresh_database("redis"), scene)


def test_letter_that_stands_otherwise_is_decided_as_it_stands(fresh_database: Callable[[str], str]) -> None:
    async def scene(makes: AsyncRedisDLQRepository, replays: AsyncRedisDLQRepository, link: Watched) -> None:
        tried = await makes.create("d", "t", retry_count=2)
        due = await makes.create("d", "t", retry_delay=60)
        gone, rejected, held, new = [(await makes.create("d", "t")).id for _ in range(4)]
        assert await makes.delete(gone)
        assert await makes.update_status(rejected, "rejected")
        assert await makes.try_acquire_for_replay(held, 3) is not None

        assert await replays.try_acquire_for_replay(tried.id, 2) is None
        again = await replays.try_acquire_for_replay(tried.id, 3)
        assert again is not None
        assert again.retry_count == 3
        leased = await replays.try_acquire_for_replay(due.id, 3, lease=60)
        assert leased is not None
        assert leased.next_retry_at is not None
        for refused in (gone, rejected, held):
            assert await replays.try_acquire_for_replay(refused, 3) is None
        assert await replays.try_acquire_for_replay(new, 0) is None
        assert link.ran.count("read") == 1  # for the last one, of which nothing was to be written

    play(fresh_database("redis"), scene)


def test_failed_replay_is_counted_on(fresh_database: Callable[[str], str]) -> None:
    async def scene(makes: AsyncRedisDLQRepository, replays: AsyncRedisDLQRepository, link: Watched) -> None:
        made = await makes.create("d", "t", **WHOLE)
        assert await replays.try_acquire_for_replay(made.id, 3) is not None
        assert await replays.complete_replay(made.id, False, note="again", error_details={"code": 5})
        taken = await makes.try_acquire_for_replay(made.id, 3)
        assert taken is not None
        assert (taken.retry_count, taken.version, taken.error_message) == (2, 4, "again")
        assert taken.metadata == {"version": 3, "code": 5}
        assert (await replays.increment_retry_count(made.id), link.ran[-1]) == (True, "write")

    play(fresh_database("redis"), scene)


def test_one_of_many_acquires(fresh_database: Callable[[str], str]) -> None:
    async def scene(makes: AsyncRedisDLQRepository, replays: AsyncRedisDLQRepository, link: Watched) -> None:
        for _ in range(20):
            entry = (await makes.create("d", "t")).id
            every = await asyncio.gather(
                *(each.try_acquire_for_replay(entry, 9) for each in (makes, replays, replays, makes))
            )
            [taken] = [each for each in every if each is not None]
            assert taken.retry_count == 1
            assert await makes.complete_replay(entry, True, token=taken.replay_token)
        assert "read" not in link.ran  # a refusal brings the record along

    play(fresh_database("redis"), scene)


def test_lost_reply_is_told_once_more_whatever_has_happened_since(fresh_database: Callable[[str], str]) -> None:
    async def scene(makes: AsyncRedisDLQRepository, replays: AsyncRedisDLQRepository, link: Watched) -> None:
        async def nothing() -> None:
            pass

        entry = (await makes.create("d", "t")).id
        link.lost = nothing
        taken = await replays.try_acquire_for_replay(entry, 3)
        assert taken is not None
        assert await makes.get_by_id(entry) == taken

        entry = (await makes.create("d", "t")).id
        link.lost = lambda: makes.update_status(entry, "pending", resolution_note="mine")
        taken = await replays.try_acquire_for_replay(entry, 3)
        assert taken is not None
        assert (taken.status, taken.retry_count) == ("replaying", 1)
        read = await makes.get_by_id(entry)
        assert read is not None
        assert (read.status, read.retry_count, read.version) == ("pending", 1, 3)
        assert not await replays.complete_replay(entry, True)

        entry = (await makes.create("d", "t")).id
        link.lost = lambda: makes.delete(entry)
        assert await replays.try_acquire_for_replay(entry, 3) is None
        assert await makes.count_all() == 2

    play(fresh_database("redis"), scene)


@pytest.mark.parametrize("off_by", [-0.5, 0.05, 50.0])
def test_clock_of_the_server_decides(
    fresh_database: Callable[[str], str], monkeypatch: pytest.MonkeyPatch, off_by: float
) -> None:
    async def scene(makes: AsyncRedisDLQRepository, replays: AsyncRedisDLQRepository, link: Watched) -> None:
        for _ in range(5):
            made = await makes.create("d", "t")
            await replays.get_by_id("none")
            monkeypatch.setattr(remembered, "monotonic", lambda: time.monotonic() + off_by)
            link.ran.clear()
            taken = await replays.try_acquire_for_replay(made.id, 3)
            monkeypatch.setattr(remembered, "monotonic", time.monotonic)
            assert link.ran == ["write", "write"]  # refused, and decided upon what came with the refusal
            assert taken is not None
            assert made.created_at is not None
            assert taken.last_retry_at is not None
            assert taken.last_retry_at >= made.created_at
            assert taken.retry_count == 1

    play(fresh_database("redis"), scene)
