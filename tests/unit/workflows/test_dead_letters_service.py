"""When the service looks for letters that are due: at the moment that is known, and seldom at rest."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from holdfast.db import ConnectionManager
from holdfast.model.world import RealWorld
from holdfast.resilience.letters import Contents
from holdfast.workflows.dead_letters import service as dead_letters_service
from holdfast.workflows.dead_letters.face import AsyncDeadLetters
from holdfast.workflows.dead_letters.service import ReplayService

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from holdfast.model.dead_letter import FailedOperationData

_LONG = 100_000.0
_PATIENCE = 60


class Sleeper(RealWorld):
    """A world whose long sleeps are told, and do not end by themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: asyncio.Queue[float] = asyncio.Queue()

    async def sleep(self, seconds: float) -> None:
        if seconds < 1:
            await super().sleep(seconds)
        else:
            self.slept.put_nowait(seconds)
            await asyncio.Event().wait()


def test_service_sleeps_until_the_next_letter_is_due(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters_service, "REST", _LONG)

    async def main() -> None:
        world = Sleeper()

        async def handle(_: FailedOperationData) -> None:
            raise OSError("not yet")

        async with (
            asyncio.timeout(_PATIENCE),
            ConnectionManager(tmp_path / "a.db") as manager,
            AsyncDeadLetters(manager, contents=Contents(), find=lambda _: handle, world=world) as letters,
        ):
            service = ReplayService(letters, letters.replayer, lambda _: handle, ["mail", "other"], world)
            service.start()
            assert await world.slept.get() == _LONG  # nothing is due, nor will be
            letter = await letters.create("mail", "t", retry_delay=5000, max_retries=2)
            service.wake()
            lease = letters.replayer.lease
            while (rest := await world.slept.get()) <= lease:  # the beats of the replay, and what is left of its lease
                pass
            assert lease < rest <= 1.25 * 5000
            failed = await letters.get_by_id(letter.id)
            assert failed is not None
            assert (failed.status, failed.retry_count) == ("pending", 1)
            await service.stop()

    asyncio.run(main())


def test_due_in_names_only_domains_that_have_something_to_wait_for(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            ConnectionManager(tmp_path / "a.db") as manager,
            AsyncDeadLetters(manager, contents=Contents(), find=lambda _: None) as letters,
        ):
            await letters.create("now", "t", retry_delay=0)
            await letters.create("never", "t")
            held = await letters.create("held", "t", retry_delay=0)
            assert await letters.try_acquire_for_replay(held.id, 2, lease=5000)
            waits = await letters.due_in(["now", "never", "held", "nobody"])
            assert waits.keys() == {"now", "held"}
            assert waits["now"] == 0
            assert 0 < waits["held"] <= 5000

    asyncio.run(main())


def test_letter_that_takes_long_keeps_no_other_waiting(tmp_path: Path) -> None:
    async def main() -> None:
        begun, done = asyncio.Event(), asyncio.Event()

        async def handle(letter: FailedOperationData) -> None:
            if letter.domain == "slow":
                begun.set()
                await asyncio.Event().wait()
            else:
                done.set()

        async with (
            asyncio.timeout(_PATIENCE),
            ConnectionManager(tmp_path / "a.db") as manager,
            AsyncDeadLetters(manager, contents=Contents(), find=lambda _: handle) as letters,
        ):
            service = ReplayService(letters, letters.replayer, lambda _: handle, ["slow", "fast"], RealWorld())
            slow = await letters.create("slow", "t", retry_delay=60)
            service.start()
            await begun.wait()
            await letters.create("fast", "t", retry_delay=60)
            service.wake()
            await done.wait()
            await service.stop()  # which ends the slow one: it has failed
            stopped = await letters.get_by_id(slow.id)
            assert stopped is not None
            assert (stopped.status, stopped.error_message) == ("pending", "The replay was cancelled.")

    asyncio.run(main())


def test_letter_that_is_taken_while_the_service_stops_is_replayed_or_given_back(tmp_path: Path) -> None:
    async def main() -> None:
        calls: Counter[str] = Counter()

        async def handle(letter: FailedOperationData) -> None:
            calls[letter.id] += 1

        async with (
            asyncio.timeout(_PATIENCE),
            ConnectionManager(tmp_path / "a.db") as manager,
            AsyncDeadLetters(manager, contents=Contents(), find=lambda _: handle) as letters,
        ):
            for moment in range(30):
                letter = await letters.create("mail", "t", retry_delay=60)
                service = ReplayService(letters, letters.replayer, lambda _: handle, ["mail"], RealWorld())
                service.start()
                await asyncio.sleep(moment * 0.0002)
                await service.stop()
                left = await letters.get_by_id(letter.id)
                assert left is not None
                assert (left.status == "replaying", left.retry_count) == (False, calls[letter.id])
                await letters.delete(letter.id)

    asyncio.run(main())
