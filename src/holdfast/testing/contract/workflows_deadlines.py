"""The contract of time limits of runs, and of code that asks whether it may go on."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from holdfast.errors import DeadlinePassed, InvalidDuration, WorkflowCancelled
from holdfast.testing.colours import Colour
from holdfast.testing.contract.workflows_stage import PATIENCE, Stage

if TYPE_CHECKING:
    from holdfast.testing.contract.venue import Venue
    from holdfast.testing.contract.workflows_stage import App, Flow, Gate

SHORT = 0.3


class DeadlinesContract:
    """``options(timeout=...)`` and ``app.cancel_token``."""

    def test_run_that_takes_too_long_is_cancelled(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, gate = stage.app(), stage.gate()

            async def waiting() -> None:
                await gate()

            step = app.step(waiting)

            async def slow() -> None:
                await step()

            flow = app.workflow(slow)
            async with app:
                handle = await flow.options(timeout=SHORT).start()
                error = await handle.error()
                assert isinstance(error, DeadlinePassed)
                assert isinstance(error, TimeoutError)
                assert handle.workflow_id in str(error)
                row = stage.run(handle.workflow_id)
                assert (row["status"], row["owner_xid"]) == ("CANCELLED", None)
                assert row["workflow_deadline_epoch_ms"] - row["created_at"] == pytest.approx(SHORT * 1000, abs=60_000)
                gate.open()
            assert stage.steps(handle.workflow_id) == []

        Stage(venue).play(scene)

    def test_run_that_ends_in_time_is_left_alone(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()

            async def quick() -> str:
                return "in time"

            flow = app.workflow(quick)
            async with app:
                assert await flow.options(timeout=PATIENCE)() == "in time"

        Stage(venue).play(scene)

    def test_deadline_passes_also_while_the_process_has_no_room_for_the_run(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, gate = stage.app(max_runs=1, put_away_after=0.01), stage.gate()

            async def away() -> None:
                await app.do("recv", "never", timeout=3600)

            async def busy() -> None:
                await gate()

            waiting, filling = app.workflow(away), app.workflow(busy)
            async with app:
                handle = await waiting.options(timeout=SHORT * 5).start()
                await stage.until(lambda: stage.run(handle.workflow_id)["status"] == "DELAYED")
                full = await filling.start()
                await gate.reached()
                assert isinstance(await handle.error(), DeadlinePassed)
                assert stage.run(full.workflow_id)["status"] == "PENDING"
                gate.open()
                await full.result()

        Stage(venue).play(scene)

    def test_children_have_no_more_time_than_their_parent(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()

            async def leaf() -> None: ...

            child = app.workflow(leaf)

            async def root() -> None:
                await child()
                await child.options(timeout=1).start()
                await child.options(timeout=3600).start()

            flow = app.workflow(root)
            async with app:
                handle = await flow.options(timeout=60).start()
                await handle.result()
            me = handle.workflow_id
            mine = stage.run(me)["workflow_deadline_epoch_ms"]
            inherited, shorter, longer = (stage.run(f"{me}-{each}")["workflow_deadline_epoch_ms"] for each in (0, 2, 3))
            assert inherited == longer == mine
            assert shorter < mine

        Stage(venue).play(scene)

    def test_deadline_of_a_run_whose_executor_is_gone_is_seen_by_another(self, venue: Venue) -> None:
        def build(app: App, gate: Gate | None) -> Flow:
            async def lasting() -> str:
                if gate is not None:
                    await gate()
                return "too late"

            return app.workflow(lasting)

        async def scene(stage: Stage) -> None:
            gate = stage.gate()
            first = stage.app()
            flow = build(first, gate)
            await first.launch()
            handle = await flow.options(timeout=PATIENCE).start()
            await gate.reached()
            await stage.crash(first)
            stage.execute(
                f"UPDATE {stage.table('workflow_status')} SET workflow_deadline_epoch_ms = 1 WHERE workflow_uuid = ?",
                handle.workflow_id,
            )
            second = stage.app()
            build(second, None)
            await second.launch()
            assert isinstance(await second.retrieve(handle.workflow_id).error(), DeadlinePassed)

        Stage(venue).play(scene)

    def test_sync_code_can_ask_whether_its_run_was_cancelled(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            if stage.colour is Colour.ASYNC:
                return await _interrupted(stage)
            app, begun, left = stage.app(), threading.Event(), threading.Event()

            async def patient() -> None:
                token = app.raw.cancel_token
                assert not token.is_cancelled
                begun.set()
                assert token.wait(PATIENCE)
                left.set()
                token.raise_if_cancelled()

            step = app.step(patient)

            async def slow() -> None:
                await step()

            flow = app.workflow(slow)
            async with app:
                handle = await flow.start()
                assert begun.wait(PATIENCE)
                await app.do("cancel_workflow", handle.workflow_id)
                assert isinstance(await handle.error(), WorkflowCancelled)
                assert left.wait(PATIENCE)
            assert stage.steps(handle.workflow_id) == []
            return None

        Stage(venue).play(scene)

    def test_outside_of_a_run_nothing_is_cancelled(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            token = stage.app().raw.cancel_token
            token.raise_if_cancelled()
            assert not token.is_cancelled
            assert not token.wait(0)
            begun = time.monotonic()
            assert not token.wait(0.05)  # else a loop that waits like this would not wait at all
            assert time.monotonic() - begun >= 0.05
            with pytest.raises(InvalidDuration):
                token.wait("soon")

        Stage(venue).play(scene)


async def _interrupted(stage: Stage) -> None:
    """Show that an async step is interrupted where it waits."""
    app, gate, left = stage.app(), stage.gate(), list[str]()

    async def patient() -> None:
        try:
            await gate()
        finally:
            left.append("interrupted")

    step = app.step(patient)

    async def slow() -> None:
        await step()

    flow = app.workflow(slow)
    async with app:
        handle = await flow.start()
        await gate.reached()
        await app.do("cancel_workflow", handle.workflow_id)
        assert isinstance(await handle.error(), WorkflowCancelled)
        await stage.until(lambda: left == ["interrupted"])
    assert stage.steps(handle.workflow_id) == []
