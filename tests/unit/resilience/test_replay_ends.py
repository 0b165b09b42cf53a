"""How replays of many end: cancelled, closed or failed at any moment, and though their handlers make letters."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import ConfigurationError, NotInitialized, Unavailable
from holdfast.resilience.replay import Manner, Replayer, Selection
from holdfast.stores import AsyncInMemoryFailedOperationRepository
from holdfast.testing.world import VirtualWorld

if TYPE_CHECKING:
    from holdfast.model.dead_letter import FailedOperationData

LETTERS, MOST_ROUNDS = 10, 400


class Scene:
    """A repository in memory with some letters, a handler that takes a round of the loop, and who was handled."""

    def __init__(self, letters: AsyncInMemoryFailedOperationRepository | None = None) -> None:
        self.world = VirtualWorld()
        self.letters = letters or AsyncInMemoryFailedOperationRepository(world=self.world)
        self.handled: list[str] = []
        self.replayer = Replayer(self.letters, lambda _: self.handle, self.world)

    async def handle(self, letter: FailedOperationData) -> None:
        self.handled.append(letter.id)
        await asyncio.sleep(0)

    async def fill(self) -> None:
        for _ in range(LETTERS):
            await self.letters.create("d", "t")

    async def replay(self, concurrency: int) -> None:
        await self.replayer.replay(Selection(domain="d"), Manner(concurrency=concurrency))


@pytest.mark.parametrize("end", ["close", "cancel"])
@pytest.mark.parametrize("concurrency", [2, LETTERS])
def test_replay_that_ends_early_at_any_moment_leaves_no_letter_held(end: str, concurrency: int) -> None:
    async def ended_after(rounds: int) -> bool:
        scene = Scene()
        await scene.fill()

        async def end_it() -> None:
            for _ in range(rounds):
                await asyncio.sleep(0)
            if end == "close":
                await scene.replayer.close()
            else:
                work.cancel()

        ending = asyncio.create_task(end_it())
        work = asyncio.create_task(scene.replay(concurrency))
        [early] = await asyncio.gather(work, return_exceptions=True)
        await ending
        assert early is None or isinstance(early, NotInitialized | asyncio.CancelledError)
        found = await scene.letters.find(domain="d")
        assert {each.status for each in found} <= {"pending", "resolved"}, rounds
        # What was begun counts, and what was only taken does not.
        assert sorted(each.id for each in found if each.retry_count) == sorted(scene.handled), rounds
        await scene.replayer.close()
        return early is None

    async def main() -> None:
        for rounds in range(1, MOST_ROUNDS):
            if await ended_after(rounds):
                return
        raise AssertionError

    asyncio.run(main())


def test_letters_that_cannot_be_given_back_are_not_kept_from_others_for_ever() -> None:
    class Away(AsyncInMemoryFailedOperationRepository):
        async def return_replay_attempt(self, id: str, *, token: str | None = None) -> bool:  # noqa: A002
            raise Unavailable(f"nobody takes {id} of {token}")

    async def main() -> None:
        reached = asyncio.Event()

        async def handle(_: FailedOperationData) -> None:
            reached.set()
            await asyncio.Event().wait()

        world = VirtualWorld()
        letters = Away(world=world)
        replayer = Replayer(letters, lambda _: handle, world)
        for _ in range(LETTERS):
            await letters.create("d", "t")
        work = asyncio.create_task(replayer.replay(Selection(domain="d"), Manner(concurrency=2)))
        await reached.wait()
        work.cancel()
        with pytest.raises(Unavailable):
            await work
        assert await letters.count(status="replaying") == LETTERS - 2
        for _ in range(20):
            await world.advance(100)
        assert await letters.release_stale_replaying(30) == LETTERS - 2
        await replayer.close()

    asyncio.run(main())


@pytest.mark.parametrize("force", [False, True])
def test_replay_ends_though_each_of_its_letters_makes_another(force: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.resilience.replay_bulk._PAGE", 2)

    async def main() -> None:
        handled = 0

        async def handle(letter: FailedOperationData) -> None:
            nonlocal handled
            handled += 1
            assert handled <= 3 * LETTERS
            scene.world.set_clock(scene.world.now() + 1)
            made = await scene.letters.create("d", letter.failure_type)
            if letter.failure_type == "review":
                await scene.letters.update_status(made.id, "requires_review")

        scene = Scene()
        scene.replayer = Replayer(scene.letters, lambda _: handle, scene.world)
        await scene.fill()
        await scene.letters.update_status((await scene.letters.create("d", "review")).id, "requires_review")
        report = await scene.replayer.replay(Selection(domain="d"), Manner(force=force, concurrency=1))
        assert (report.failed, report.replayed) == (0, LETTERS + force)
        assert await scene.letters.count(status="pending") == LETTERS

    asyncio.run(main())


def test_progress_that_would_have_to_be_awaited_is_refused() -> None:
    async def main() -> None:
        async def progress(_: int, __: object) -> None:
            raise AssertionError

        scene = Scene()
        watch: Any = progress
        with pytest.raises(ConfigurationError, match="does not wait"):
            await scene.replayer.replay(Selection(domain="d"), Manner(), watch)

    asyncio.run(main())
