"""Replaying letters of a repository in memory, on a clock of the test's own."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import ConfigurationError, NotInitialized, ReplayRefused, Unavailable
from holdfast.resilience.handlers import Handlers
from holdfast.resilience.letters import MASK, Contents, arguments_of, make_letter
from holdfast.resilience.replay import Manner, Replayer, Selection
from holdfast.resilience.replay_arguments import Arguments
from holdfast.resilience.replay_report import ReplayReport, ReplayResult
from holdfast.resilience.sealing import Sealing
from holdfast.serialize import Serialization
from holdfast.stores import AsyncInMemoryFailedOperationRepository
from holdfast.testing.contract.store_ground import elsewhere
from holdfast.testing.world import VirtualWorld

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from holdfast.model.dead_letter import FailedOperationData, ReplayEnd


PLAIN: Any = {"contents": Contents(), "sealing": Sealing(Serialization())}


class Scene:
    """A repository in memory, and one handler for everything."""

    def __init__(self, handle: Callable[[FailedOperationData], Awaitable[Any]], **options: Any) -> None:
        self.world = VirtualWorld()
        self.letters = AsyncInMemoryFailedOperationRepository(world=self.world)
        self.replayer = Replayer(self.letters, lambda _: handle, self.world, **options)

    async def fill(self, number: int) -> list[str]:
        return [(await self.letters.create("d", "t", request_data={"n": n})).id for n in range(number)]

    async def replay(self, **manner: Any) -> ReplayReport:
        return await self.replayer.replay(Selection(domain="d"), Manner(**manner))


def test_replay_begins_no_more_in_a_second_than_its_rate() -> None:
    async def main() -> None:
        begun: list[float] = []

        async def handle(_: FailedOperationData) -> None:
            begun.append(scene.world.monotonic())

        scene = Scene(handle)
        await scene.fill(6)
        work = asyncio.create_task(scene.replay(rate=2))
        while not work.done():
            await scene.world.advance(0.25)
        assert work.result().replayed == 6
        assert begun == [0.0, 0.5, 1.0, 1.5, 2.0, 2.5]

    asyncio.run(main())


def test_letter_whose_holder_died_long_ago_is_replayed_by_its_id() -> None:
    async def main() -> None:
        async def handle(_: FailedOperationData) -> None: ...

        scene = Scene(handle)
        [one] = await scene.fill(1)
        await elsewhere(scene.letters.try_acquire_for_replay(one, 2))
        await scene.world.advance(1800)
        assert (await scene.replayer.replay(Selection(one), Manner())).skipped == 1  # it may still live
        await scene.world.advance(1)
        assert (await scene.replayer.replay(Selection(one), Manner(dry_run=True))).skipped == 1
        assert (await scene.replayer.replay(Selection(one), Manner())).replayed == 1

    asyncio.run(main())


def test_letter_that_is_taken_from_one_replay_is_kept_by_the_next_when_the_first_ends() -> None:
    async def main() -> None:
        begun: list[asyncio.Event] = []

        async def handle(_: FailedOperationData) -> None:
            begun.append(asyncio.Event())
            await begun[-1].wait()

        scene = Scene(handle)
        [one] = await scene.fill(1)
        first = asyncio.create_task(scene.replay())
        await scene.world.advance(0)
        await elsewhere(scene.letters.update_status(one, "pending"))
        second = asyncio.create_task(scene.replay())
        await scene.world.advance(0)
        begun[0].set()
        assert (await first).lost == 1
        for _ in range(20):
            await scene.world.advance(100)
        assert await scene.letters.release_stale_replaying() == 0
        begun[1].set()
        assert (await second).replayed == 1

    asyncio.run(main())


def test_replay_handles_no_more_at_once_than_it_may() -> None:
    async def main() -> None:
        running: list[int] = [0]
        most: list[int] = [0]

        async def handle(_: FailedOperationData) -> None:
            running[0] += 1
            most[0] = max(most[0], running[0])
            await asyncio.sleep(0)
            running[0] -= 1

        scene = Scene(handle)
        await scene.fill(50)
        assert (await scene.replay(concurrency=4)).replayed == 50
        assert most[0] == 4

    asyncio.run(main())


def test_dry_run_changes_nothing() -> None:
    async def main() -> None:
        async def handle(_: FailedOperationData) -> None:
            raise AssertionError

        scene = Scene(handle)
        ids = await scene.fill(3)
        before = [await scene.letters.get_by_id(each) for each in ids]
        report = await scene.replay(dry_run=True, rate=0.001)
        assert report.counts[ReplayResult.WOULD_REPLAY] == report.matched == 3
        assert [await scene.letters.get_by_id(each) for each in ids] == before

    asyncio.run(main())


def test_long_replay_is_kept_alive_and_one_that_is_taken_away_changes_nothing() -> None:
    async def main() -> None:
        gate = asyncio.Event()

        async def handle(_: FailedOperationData) -> None:
            await gate.wait()

        scene = Scene(handle, lease=30)
        [kept, taken] = await scene.fill(2)
        work = asyncio.create_task(scene.replay())
        for _ in range(10):
            await scene.world.advance(11)
            assert await scene.letters.release_stale_replaying(1) == 0
        await scene.letters.update_status(taken, "rejected")
        await scene.world.advance(11)
        await scene.world.advance(11)
        gate.set()
        report = await work
        assert {each.id: each.result for each in report.outcomes} == {kept: "replayed", taken: "lost"}
        found = await scene.letters.get_by_id(taken)
        assert found is not None
        assert found.status == "rejected"

    asyncio.run(main())


def test_cancelled_replay_leaves_every_letter_pending() -> None:
    async def main() -> None:
        reached = asyncio.Event()

        async def handle(_: FailedOperationData) -> None:
            reached.set()
            await asyncio.Event().wait()

        scene = Scene(handle)
        await scene.fill(10)
        work = asyncio.create_task(scene.replay(concurrency=2))
        await reached.wait()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        found = await scene.letters.find(domain="d")
        assert {each.status for each in found} == {"pending"}
        # Two were begun, and count; what was only taken was given back.
        assert sorted(each.retry_count for each in found) == [0] * 8 + [1] * 2

    asyncio.run(main())


def test_handler_on_a_thread_counts_though_its_replay_is_cancelled() -> None:
    async def main() -> None:
        begun, may_end = threading.Event(), threading.Event()

        def handle(_: FailedOperationData) -> None:
            begun.set()
            assert may_end.wait(60)

        handlers = Handlers()
        scene = Scene(handlers.handle_of(handle))
        [letter] = await scene.fill(1)
        work = asyncio.create_task(scene.replay())
        await asyncio.to_thread(begun.wait, 60)
        work.cancel()
        work.cancel()
        asyncio.get_running_loop().call_soon(may_end.set)
        with pytest.raises(asyncio.CancelledError):
            await work
        found = await scene.letters.get_by_id(letter)
        assert found is not None
        assert found.status == "resolved"
        handlers.close()

    asyncio.run(main())


def test_handler_that_is_taken_for_lost_and_succeeds_changes_nothing() -> None:
    async def main() -> None:
        async def handle(letter: FailedOperationData) -> None:
            await scene.letters.update_status(letter.id, "rejected")
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return  # it will not be stopped

        scene = Scene(handle, lease=30)
        [letter] = await scene.fill(1)
        work = asyncio.create_task(scene.replay())
        while not work.done():
            await scene.world.advance(11)
        assert work.result().lost == 1
        found = await scene.letters.get_by_id(letter)
        assert found is not None
        assert found.status == "rejected"

    asyncio.run(main())


def test_closing_ends_replays_and_tells_their_callers() -> None:
    async def main() -> None:
        reached = asyncio.Event()

        async def handle(_: FailedOperationData) -> None:
            reached.set()
            await asyncio.Event().wait()

        scene = Scene(handle)
        await scene.fill(5)
        work = asyncio.create_task(scene.replay(concurrency=1))
        await reached.wait()
        await scene.replayer.close()
        with pytest.raises(NotInitialized, match="closed during the replay"):
            await work
        found = await scene.letters.find(domain="d")
        assert sorted((each.status, each.retry_count) for each in found) == [("pending", 0)] * 4 + [("pending", 1)]

    asyncio.run(main())


def test_handler_that_wants_to_exit_has_failed() -> None:
    async def main() -> None:
        async def handle(_: FailedOperationData) -> None:
            sys.exit(3)

        scene = Scene(handle)
        await scene.fill(1)
        assert list((await scene.replay()).errors.values()) == ["SystemExit: 3"]

    asyncio.run(main())


def test_progress_that_raises_ends_the_replay_and_what_was_handled_is_noted() -> None:
    async def main() -> None:
        handled: list[str] = []

        async def handle(letter: FailedOperationData) -> None:
            handled.append(letter.id)

        def progress(done: int, _: object) -> None:
            raise OSError(f"no room for {done}")

        scene = Scene(handle)
        await scene.fill(20)
        with pytest.raises(OSError, match="no room for 1"):
            await scene.replayer.replay(Selection(domain="d"), Manner(concurrency=2), progress)
        counts = Counter(each.status for each in await scene.letters.find(domain="d"))
        assert counts == Counter({"resolved": len(handled), "pending": 20 - len(handled)})

    asyncio.run(main())


def test_letter_that_is_deleted_while_it_is_replayed_is_lost() -> None:
    async def main() -> None:
        async def handle(letter: FailedOperationData) -> None:
            await scene.letters.delete(letter.id)

        scene = Scene(handle)
        await scene.fill(1)
        assert (await scene.replay()).lost == 1

    asyncio.run(main())


def test_error_of_the_storage_ends_the_replay_and_gives_back_what_was_not_begun() -> None:
    class Broken(AsyncInMemoryFailedOperationRepository):
        async def complete_many(self, ends: Sequence[ReplayEnd]) -> list[bool]:
            raise Unavailable(f"no room for {len(ends)}")

    async def main() -> None:
        handled: list[str] = []

        async def handle(letter: FailedOperationData) -> None:
            handled.append(letter.id)

        scene = Scene(handle)
        scene.letters = Broken(world=scene.world)
        scene.replayer = Replayer(scene.letters, lambda _: handle, scene.world)
        await scene.fill(20)
        with pytest.raises(Unavailable, match="no room"):
            await scene.replay(concurrency=1)
        counts = Counter(each.status for each in await scene.letters.find(domain="d"))
        assert counts["replaying"] == len(handled)
        assert counts["pending"] == 20 - len(handled) > 0

    asyncio.run(main())


def test_letters_whose_handler_is_gone_meanwhile_stay_untried() -> None:
    async def main() -> None:
        handled: list[str] = []

        async def handle(letter: FailedOperationData) -> None:
            handled.append(letter.id)

        scene = Scene(handle)
        scene.replayer = Replayer(scene.letters, lambda _: handle if len(handled) < 3 else None, scene.world)
        await scene.fill(10)
        report = await scene.replay(concurrency=1)
        assert (report.replayed, report.skipped) == (3, 7)
        left = await scene.letters.find(status="pending", domain="d")
        assert [each.retry_count for each in left] == [0] * 7

    asyncio.run(main())


def test_limit_and_force_take_each_letter_once() -> None:
    async def main() -> None:
        handled: list[str] = []

        async def handle(letter: FailedOperationData) -> None:
            handled.append(letter.id)
            raise OSError("still broken")

        scene = Scene(handle)
        ids = [(await scene.letters.create("d", "t", max_retries=1)).id for _ in range(6)]
        await scene.letters.bulk_update_status(ids[4:], "requires_review")
        limited = await scene.replayer.replay(Selection(domain="d", limit=2), Manner())
        assert (limited.failed, len(handled), set(handled) <= set(ids[:4])) == (2, 2, True)
        handled.clear()
        assert (await scene.replay(force=True)).failed == 6
        assert sorted(handled) == sorted(ids)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("selection", "manner"),
    [
        (Selection(id="x", domain="d"), Manner()),
        (Selection(status="resolved"), Manner(force=True)),
        (Selection(status="requires_review"), Manner()),
        (Selection(), Manner(rate=0)),
        (Selection(), Manner(concurrency=0)),
    ],
)
def test_replay_refuses_what_makes_no_sense(selection: Selection, manner: Manner) -> None:
    async def main() -> None:
        async def handle(_: FailedOperationData) -> None:
            raise AssertionError

        with pytest.raises(ConfigurationError):
            await Scene(handle).replayer.replay(selection, manner)

    asyncio.run(main())


def test_masks_reach_every_depth_and_any_case() -> None:
    contents = Contents.of(["password", "Card"])
    kept = contents.call([{"PASSWORD": "a", "deep": [{"card": "b", "name": "c"}]}], {"card": None})
    assert kept["positionalArgs"] == [{"PASSWORD": MASK, "deep": [{"card": MASK, "name": "c"}]}]
    assert kept["namedArgs"] == {"card": None}
    assert kept["_masked"] == ["PASSWORD", "card"]


def test_arguments_that_were_changed_or_left_out_are_not_used() -> None:
    async def main() -> None:
        letters = AsyncInMemoryFailedOperationRepository()
        contents = Contents.of(["card"], 50)
        for kept in (
            contents.call([], {"card": "x"}),
            contents.stored('{"positionalArgs":["x"],"namedArgs":{"long":"argument"}}', elsewhere={"workflow_id": "w"}),
            contents.call([object()], {}),
        ):
            letter = await letters.create("d", "t", request_data=kept)
            with pytest.raises(ReplayRefused, match=letter.id):
                arguments_of(letter)
        whole = await letters.create("d", "t", request_data=contents.call(["x" * 100], {}))
        assert arguments_of(whole) == (["x" * 100], {})

    asyncio.run(main())


def test_arguments_that_json_changes_are_given_back_by_annotation_or_not_at_all() -> None:
    def typed(cents: Decimal, *, days: set[date]) -> None: ...
    def loose(cents: Any, *, days: list[str]) -> None: ...

    async def main() -> None:
        letters = AsyncInMemoryFailedOperationRepository()
        kept = Contents().call([Decimal("1.5")], {"days": {date(2030, 1, 1)}})
        assert kept["positionalArgs"] == ["1.5"]
        assert kept["_types"] == {"positionalArgs[0]": "Decimal", "namedArgs.days": "set[date]"}
        letter = await letters.create("d", "t", request_data=kept)
        assert Arguments(typed).of(letter) == ((Decimal("1.5"),), {"days": {date(2030, 1, 1)}})
        with pytest.raises(ReplayRefused, match="was Decimal, and would be str"):
            Arguments(loose).of(letter)
        with pytest.raises(ReplayRefused, match=letter.id):
            Arguments(main).of(letter)  # takes nothing

    asyncio.run(main())


def test_error_whose_code_cannot_be_had_becomes_a_letter() -> None:
    class Odd(Exception):
        @property
        def code(self) -> str:
            raise RuntimeError("no code")

    async def main() -> None:
        letter = await make_letter(AsyncInMemoryFailedOperationRepository(), "d", Odd("x"), [], {}, **PLAIN)
        assert letter is not None
        assert (letter.error_message, letter.error_code) == ("x", "")

    asyncio.run(main())


def test_error_whose_code_no_database_keeps_becomes_a_letter() -> None:
    class Odd(Exception):
        code = "half \ud800 and\0"

    async def main() -> None:
        letter = await make_letter(AsyncInMemoryFailedOperationRepository(), "d", Odd("x"), [], {}, **PLAIN)
        assert letter is not None
        assert letter.error_code == "half ? and\ufffd"

    asyncio.run(main())


def test_letter_of_a_call_has_its_error_and_traceback() -> None:
    async def main() -> None:
        letters = AsyncInMemoryFailedOperationRepository()
        try:
            raise OSError("down")
        except OSError as error:
            letter = await make_letter(letters, "d", error, [1], {"two": 2}, metadata={"protect": "x"}, **PLAIN)
        assert letter is not None
        assert (letter.failure_type, letter.error_message, letter.metadata) == ("OSError", "down", {"protect": "x"})
        assert "Traceback" in letter.error
        assert arguments_of(letter) == ([1], {"two": 2})

    asyncio.run(main())
