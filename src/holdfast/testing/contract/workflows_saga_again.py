"""The contract of sagas in runs that are tried again: what was undone is done anew, and what was not is kept."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.errors import UndoFailed
from holdfast.testing.contract.workflows_again import SOON, Busy, counting
from holdfast.testing.contract.workflows_saga import saga_of
from holdfast.testing.contract.workflows_stage import Stage

if TYPE_CHECKING:
    from holdfast.testing.contract.venue import Venue
    from holdfast.testing.contract.workflows_stage import App, Flow, Life, Step


async def booked(app: App, act: Step, *parts: str) -> None:
    """Book *parts* in a saga, each with its undo."""
    async with saga_of(app) as saga:
        for part in parts:
            await act(part)
            saga.undo(act.raw, f"undo {part}")


class SagaAgainContract:
    """``app.saga()`` in ``@app.workflow(retry=...)``."""

    def test_saga_that_was_undone_is_done_anew(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, did = stage.app(), list[str]()
            act = counting(app, did, fails={"car": 1})

            async def trip() -> None:
                await act("before")
                await booked(app, act, "flight", "hotel", "car")
                await act("after")

            flow = app.workflow(trip, retry=SOON)
            async with app:
                handle = await flow.start()
                await handle.result()
            assert did == [
                *("before", "flight", "hotel", "car", "undo hotel", "undo flight"),
                *("flight", "hotel", "car", "after"),
            ]
            assert len(stage.steps(handle.workflow_id)) == 5

        Stage(venue).play(scene)

    def test_saga_around_an_undone_one_is_done_anew_from_its_own_beginning(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, did = stage.app(), list[str]()
            act = counting(app, did, fails={"inner": 1})

            async def trip() -> None:
                async with saga_of(app) as saga:
                    await act("outer")
                    saga.undo(act.raw, "undo outer")
                    await booked(app, act, "first", "inner")

            flow = app.workflow(trip, retry=SOON)
            async with app:
                await flow()
            assert did == ["outer", "first", "inner", "undo first", "undo outer", "outer", "first", "inner"]

        Stage(venue).play(scene)

    def test_sagas_that_were_undone_side_by_side_are_both_done_anew(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, did = stage.app(), list[str]()
            act = counting(app, did, fails={"a1": 1, "b1": 1})

            async def trip() -> None:
                await app.gather(lambda: booked(app, act, "a0", "a1"), lambda: booked(app, act, "b0", "b1"))

            flow = app.workflow(trip, retry=SOON)
            async with app:
                await flow()
            for part in "ab":
                mine = [each for each in did if part in each.removeprefix("undo")]
                assert mine == [f"{part}0", f"{part}1", f"undo {part}0", f"{part}0", f"{part}1"]

        Stage(venue).play(scene)

    def test_saga_whose_parts_are_side_by_side_is_done_anew(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, did = stage.app(), list[str]()
            act = counting(app, did, fails={"car": 1})

            async def trip() -> None:
                async with saga_of(app) as saga:
                    await app.gather(lambda: act("flight"), lambda: act("hotel"))
                    saga.undo(act.raw, "undo both")
                    await act("car")

            flow = app.workflow(trip, retry=SOON)
            async with app:
                await flow()
            assert [did.count(each) for each in ("flight", "hotel", "car", "undo both")] == [2, 2, 2, 1]

        Stage(venue).play(scene)

    def test_saga_that_ended_well_is_kept(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, did = stage.app(), list[str]()
            act = counting(app, did, fails={"car": 1})

            async def trip() -> None:
                await booked(app, act, "flight")
                await booked(app, act, "hotel", "car")

            flow = app.workflow(trip, retry=SOON)
            async with app:
                await flow()
            assert did == ["flight", "hotel", "car", "undo hotel", "hotel", "car"]

        Stage(venue).play(scene)

    def test_undone_saga_whose_error_was_caught_is_kept(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, did = stage.app(), list[str]()
            act = counting(app, did, fails={"car": 1, "train": 1})

            async def trip() -> None:
                with suppress(Busy):
                    await booked(app, act, "flight", "car")
                await act("train")

            flow = app.workflow(trip, retry=SOON)
            async with app:
                await flow()
            assert did == ["flight", "car", "undo flight", "train", "train"]

        Stage(venue).play(scene)

    def test_run_is_not_tried_again_when_something_was_not_undone(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, did = stage.app(), list[str]()
            act = counting(app, did, fails={"car": 1, "undo hotel": 9})

            async def trip() -> None:
                await booked(app, act, "flight", "hotel", "car")

            flow = app.workflow(trip, retry=SOON)
            async with app:
                assert isinstance(await (await flow.start()).error(), UndoFailed)
            assert did == ["flight", "hotel", "car", "undo hotel", "undo flight"]

        Stage(venue).play(scene)

    def test_saga_that_was_replayed_and_then_undone_is_done_anew(self, venue: Venue) -> None:
        did: list[str] = []

        def build(app: App, life: Life) -> Flow:
            act = counting(app, did, fails={"car": 1})

            async def trip() -> None:
                await act("before")
                async with saga_of(app) as saga:
                    await app.gather(lambda: act("flight"))
                    saga.undo(act.raw, "undo flight")
                    await act("hotel")
                    saga.undo(act.raw, "undo hotel")
                    await life()
                    await act("car")

            return app.workflow(trip, retry=SOON)

        async def scene(stage: Stage) -> None:
            handle = await stage.relive(build)
            await handle.result()
            assert did == [
                *("before", "flight", "hotel", "car", "undo hotel", "undo flight"),
                *("flight", "hotel", "car"),
            ]

        Stage(venue).play(scene)
