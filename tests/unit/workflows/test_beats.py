"""What a beat concludes: which runs are strangers here, until when user code may be started, and when it may not."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from holdfast.db import ConnectionManager, DialectName
from holdfast.db.migrations.migrator import Migrator
from holdfast.errors import Unavailable
from holdfast.testing.world import VirtualWorld
from holdfast.workflows.ownership.beats import Beats
from holdfast.workflows.ownership.executor import Executor
from holdfast.workflows.ownership.permit import Permit
from holdfast.workflows.queries import workflow_queries

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from holdfast.db.session import Row

LEASE = 30.0


class Here:
    """An engine that runs *running*, and notes what it is told and whether user code might be started then."""

    def __init__(self, permit: Permit) -> None:
        self._permit = permit
        self.running: set[str] = set()
        self.is_blocked = False
        self.age = 0.0
        self.stopped: list[set[str]] = []
        self.might_start: dict[str, bool] = {}

    def oldest_write_age(self) -> float:
        return self.age

    def tokens(self) -> set[str]:
        return self.running

    def not_owned(self, tokens: set[str]) -> None:
        self.stopped.append(tokens)

    def forgotten(self) -> None:
        self.might_start["forgotten"] = self._permit.is_valid()

    def registered(self) -> None:
        self.might_start["registered"] = self._permit.is_valid()

    def reborn(self) -> None:
        self.might_start["reborn"] = self._permit.is_valid()

    def work_released(self) -> None:
        pass

    def database_time(self, now_ms: int) -> None:
        pass

    def ping(self, answer: Callable[[], None]) -> None:
        if not self.is_blocked:
            answer()

    def loop_thread(self) -> int:
        return 0


class Scene:
    """An executor that beats when it is told to."""

    def __init__(self, manager: ConnectionManager) -> None:
        self.world = VirtualWorld()
        self.permit = Permit(self.world)
        self.here = Here(self.permit)
        self.executor = Executor("an-executor", "a-version", "first", LEASE)
        queries = workflow_queries(DialectName.SQLITE, "holdfast")
        self.beats = Beats(self.executor, manager, queries, self.here, self.permit, self.world, patience=1.0)

    async def other_comes(self) -> None:
        """Register another executor, which never beats."""
        named = {"executor_id": "other", "hostname": "h", "pid": 1, "application_version": "v", "queues": "[]"}
        await self.beats._execute("executor_register", incarnation="other", lease_ms=int(LEASE * 1000), **named)

    async def other_is_there(self) -> bool:
        return "other" in {row["incarnation"] for row in await self.beats._see()}


@asynccontextmanager
async def registered(path: Path) -> AsyncIterator[Scene]:
    async with ConnectionManager(f"sqlite:///{path}") as manager:
        await Migrator(manager, schema="holdfast").migrate()
        scene = Scene(manager)
        await scene.beats._register("first")
        yield scene


def test_run_that_nobody_runs_here_is_a_stranger_when_it_is_seen_so_twice_in_a_row(tmp_path: Path) -> None:
    async def main() -> None:
        async with registered(tmp_path / "runs.db") as scene:
            await scene.world.advance(LEASE)
            look, own = scene.beats._strangers, {"lost": "a", "mine": "b"}
            scene.here.running = {"mine"}
            assert look(set(), own) == set()
            assert look(set(), {"mine": "b"}) == set()  # it came and went
            assert look(set(), own) == set()
            assert look({"mine"}, own) == {"lost"}

    asyncio.run(main())


def test_run_that_the_database_does_not_have_here_any_more_is_stopped(tmp_path: Path) -> None:
    async def main() -> None:
        async with registered(tmp_path / "runs.db") as scene:
            await scene.world.advance(LEASE)
            scene.here.running = {"cancelled", "mine", "begun meanwhile"}
            scene.beats._strangers({"cancelled", "mine"}, {"mine": "b"})
            assert scene.here.stopped == [{"cancelled"}]

    asyncio.run(main())


def test_nothing_is_strange_while_the_loop_has_not_been_free_for_a_beat(tmp_path: Path) -> None:
    async def main() -> None:
        async with registered(tmp_path / "runs.db") as scene:
            look, own = scene.beats._strangers, {"lost": "a"}
            await scene.world.advance(LEASE)
            assert look(set(), own) == set()
            scene.here.is_blocked = True
            scene.beats._loop_watch.look()
            await scene.world.advance(LEASE)
            scene.beats._loop_watch.look()
            assert look({"ended"}, own) == set()
            assert scene.here.stopped == [set()]
            await scene.world.advance(LEASE / 2)
            assert look(set(), own) == set()  # what was seen before the loop was blocked does not count
            assert look(set(), own) == {"lost"}

    asyncio.run(main())


def test_beat_permits_user_code_until_a_fifth_of_the_lease_before_its_end(tmp_path: Path) -> None:
    async def main() -> None:
        async with registered(tmp_path / "runs.db") as scene:
            assert await scene.beats._beat()
            await scene.world.advance(LEASE * 0.79)
            assert scene.permit.is_valid()
            await scene.world.advance(LEASE * 0.02)
            assert not scene.permit.is_valid()

    asyncio.run(main())


def test_executor_that_was_taken_for_gone_starts_no_user_code_until_it_has_begun_anew(tmp_path: Path) -> None:
    async def main() -> None:
        async with registered(tmp_path / "runs.db") as scene:
            assert await scene.beats._beat()
            assert scene.permit.is_valid()
            await scene.beats._execute("executor_leave", incarnation="first")  # as another does for one who is silent
            await scene.beats._tick()
            assert scene.here.might_start == {"forgotten": False, "registered": False, "reborn": True}
            assert scene.executor.incarnation != "first"

    asyncio.run(main())


def test_permit_of_one_who_registers_counts_from_before_it_asked(tmp_path: Path) -> None:
    """The answer may take as long as it likes: the lease has begun by then."""

    async def main() -> None:
        async with registered(tmp_path / "runs.db") as scene:
            execute = scene.beats._execute

            async def slow(name: str, **values: object) -> int:
                done = await execute(name, **values)
                await scene.world.advance(LEASE / 2)
                return done

            scene.beats._execute = slow  # type: ignore[method-assign]
            await scene.beats._register("second")
            scene.beats._acknowledged(scene.beats._registered_at)
            await scene.world.advance(LEASE * 0.29)
            assert scene.permit.is_valid()
            await scene.world.advance(LEASE * 0.02)
            assert not scene.permit.is_valid()

    asyncio.run(main())


@pytest.mark.parametrize("how", ["a write that hung", "beginning anew"])
def test_who_could_not_beat_watches_every_lease_of_others_from_the_start(tmp_path: Path, how: str) -> None:
    """Its own beats had a gap, if a shorter one than its looks would tell: what it saw before proves nothing."""

    async def main() -> None:
        async with registered(tmp_path / "runs.db") as scene:
            await scene.other_comes()
            await scene.beats._tick()
            await scene.world.advance(LEASE * 0.6)
            if how == "beginning anew":
                scene.beats._lost = scene.executor.incarnation
            else:
                scene.here.age = LEASE * 2
                scene.beats._loop_watch._free_since = float("-inf")
            await scene.beats._tick()
            scene.here.age = 0.0
            begun = scene.world.monotonic()
            await scene.beats._tick()
            while await scene.other_is_there():
                await scene.world.advance(LEASE / 10)
                await scene.beats._tick()
            assert LEASE <= scene.world.monotonic() - begun < LEASE * 1.3

    asyncio.run(main())


def test_who_was_stopped_for_a_while_takes_nobody_for_gone_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with registered(tmp_path / "runs.db") as scene:
            await scene.other_comes()
            await scene.beats._tick()
            await scene.world.advance(LEASE * 3)
            await scene.beats._tick()
            assert await scene.other_is_there()

    asyncio.run(main())


def test_slow_answers_of_the_database_shorten_nobody_s_lease(tmp_path: Path) -> None:
    async def main() -> None:
        async with registered(tmp_path / "runs.db") as scene:
            await scene.other_comes()
            see = scene.beats._see

            async def slow() -> list[Row]:
                rows = await see()
                await scene.world.advance(LEASE * 0.4)
                return rows

            scene.beats._see = slow  # type: ignore[method-assign]
            for _ in range(3):  # asked at 0, 0.6 and 1.2 of a lease; the first answer came at 0.4
                await scene.beats._tick()
                await scene.world.advance(LEASE * 0.2)
            assert await scene.other_is_there()

    asyncio.run(main())


def test_beat_that_was_made_by_an_earlier_try_is_a_beat(tmp_path: Path) -> None:
    async def main() -> None:
        async with registered(tmp_path / "runs.db") as scene:
            made = {"incarnation": "first", "acknowledged": 0, "beat_seq": 1, "stalled_since": None}
            assert await scene.beats._execute("executor_beat", **made) == 1  # and the reply was lost
            assert await scene.beats._beat()
            assert scene.executor.incarnation == "first"
            assert await scene.beats._beat()

    asyncio.run(main())


def test_executor_whose_row_is_gone_begins_anew_though_others_beat(tmp_path: Path) -> None:
    async def main() -> None:
        async with registered(tmp_path / "runs.db") as scene:
            await scene.other_comes()
            await scene.beats._execute("executor_leave", incarnation="first")
            assert not await scene.beats._beat()
            assert scene.executor.incarnation != "first"

    asyncio.run(main())


def test_executor_whose_row_has_gone_back_begins_anew(tmp_path: Path) -> None:
    async def main() -> None:
        async with registered(tmp_path / "runs.db") as scene:
            assert await scene.beats._beat()
            await scene.beats._execute("executor_leave", incarnation="first")
            await scene.beats._register("first")  # with no beat
            scene.beats._sequence = 1
            assert not await scene.beats._beat()
            assert scene.executor.incarnation != "first"

    asyncio.run(main())


def test_writes_that_wait_for_a_loop_that_was_blocked_do_not_stop_the_beat(tmp_path: Path) -> None:
    async def main() -> None:
        async with registered(tmp_path / "runs.db") as scene:
            scene.here.age = LEASE * 2
            await scene.beats._tick()
            assert scene.permit.is_valid()
            await scene.world.advance(LEASE * 1.1)  # in which the loop was free
            await scene.beats._tick()
            assert not scene.permit.is_valid()

    asyncio.run(main())


def test_registration_whose_reply_was_lost_is_made_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with registered(tmp_path / "runs.db") as scene:
            scene.executor.incarnation = "second"
            execute, lost = scene.beats._execute, list[str]()

            async def loses_one(name: str, **values: object) -> int:
                done = await execute(name, **values)
                if name == "executor_register" and not lost:
                    lost.append(name)
                    raise Unavailable("the reply was lost")
                return done

            scene.beats._execute = loses_one  # type: ignore[method-assign]
            scene.beats._stop, scene.beats._hurry = asyncio.Event(), asyncio.Event()
            scene.beats._hurry.set()  # try again at once
            await scene.beats._join()
            assert lost
            assert scene.permit.is_valid()

    asyncio.run(main())
