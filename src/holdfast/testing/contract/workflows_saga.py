"""The contract of sagas: what was done is undone in reverse order, once, also when the undoing is interrupted."""

from __future__ import annotations

import asyncio
import logging
import secrets
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import MisuseError, UndoFailed
from holdfast.testing.colours import Colour
from holdfast.testing.contract.workflows_stage import Stage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from holdfast.testing.contract.venue import Venue
    from holdfast.testing.contract.workflows_stage import App, Flow, Life


@asynccontextmanager
async def saga_of(app: App) -> AsyncIterator[Any]:
    """Open a saga in the application's colour."""
    if app.colour is Colour.ASYNC:
        async with app.raw.saga() as saga:
            yield saga
    else:
        with app.raw.saga() as saga:
            yield saga


class SagaContract:
    """``app.saga()``."""

    def test_what_was_done_is_undone_in_reverse_order_and_the_error_comes_out(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, did = stage.app(), list[str]()
            act = noting(app, did)

            async def trip() -> None:
                async with saga_of(app) as saga:
                    for part in ("flight", "hotel"):
                        await act(f"book {part}")
                        saga.undo(act.raw, f"cancel {part}")
                    raise RuntimeError("no car")

            flow = app.workflow(trip)
            async with app:
                handle = await flow.start()
                assert str(await handle.error()) == "no car"
            assert did == ["book flight", "book hotel", "cancel hotel", "cancel flight"]
            assert len(stage.steps(handle.workflow_id)) == 4

        Stage(venue).play(scene)

    @pytest.mark.parametrize("kind", [SystemExit, asyncio.CancelledError])
    def test_block_that_ends_its_run_with_no_exception_is_undone_too(
        self, venue: Venue, kind: type[BaseException]
    ) -> None:
        async def scene(stage: Stage) -> None:
            app, did = stage.app(), list[str]()
            act = noting(app, did)

            async def trip() -> None:
                async with saga_of(app) as saga:
                    await act("book flight")
                    saga.undo(act.raw, "cancel flight")
                    raise kind("no car")

            flow = app.workflow(trip)
            async with app:
                handle = await flow.start()
                assert kind.__name__ in str(await handle.error())
            assert did == ["book flight", "cancel flight"]

        Stage(venue).play(scene)

    def test_undo_that_was_called_and_not_handed_over_is_refused_where_it_stands(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, did = stage.app(), list[str]()
            act = noting(app, did)

            async def trip() -> str:
                async with saga_of(app) as saga:
                    with pytest.raises(MisuseError, match=r"undo\(cancel, flight\)"):
                        saga.undo(act.raw("cancel"))
                return "told"

            flow = app.workflow(trip)
            async with app:
                assert await flow() == "told"

        Stage(venue).play(scene)

    def test_saga_that_succeeds_undoes_nothing(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, did = stage.app(), list[str]()
            act = noting(app, did)

            async def trip() -> str:
                async with saga_of(app) as saga:
                    await act("book")
                    saga.undo(act.raw, "cancel")
                return "booked"

            flow = app.workflow(trip)
            async with app:
                assert await flow() == "booked"
            assert did == ["book"]

        Stage(venue).play(scene)

    def test_undoing_goes_on_past_one_that_fails_and_says_so(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, did = stage.app(), list[str]()
            act = noting(app, did, refuses="cancel hotel")

            async def trip() -> None:
                async with saga_of(app) as saga:
                    for part in ("flight", "hotel", "car"):
                        saga.undo(act.raw, f"cancel {part}")
                    raise RuntimeError("no time")

            flow = app.workflow(trip)
            async with app:
                handle = await flow.start()
                error = await handle.error()
            assert isinstance(error, UndoFailed)
            assert "cancel hotel is refused" in str(error)
            assert "no time" in str(error)
            assert did == ["cancel car", "cancel hotel", "cancel flight"]

        Stage(venue).play(scene)

    def test_undoing_that_is_interrupted_goes_on_where_it_stopped(self, venue: Venue) -> None:
        did: list[str] = []

        def build(app: App, life: Life) -> Flow:
            act = noting(app, did)

            async def last(name: str) -> None:
                await life()
                did.append(name)

            step = app.step(last)

            async def trip() -> None:
                async with saga_of(app) as saga:
                    saga.undo(step.raw, "cancel flight")
                    await act("book hotel")
                    saga.undo(act.raw, "cancel hotel")
                    raise RuntimeError("no car")

            return app.workflow(trip)

        async def scene(stage: Stage) -> None:
            handle = await stage.relive(build)
            with pytest.raises(RuntimeError, match="no car"):
                await handle.result()
            assert did == ["book hotel", "cancel hotel", "cancel flight"]

        Stage(venue).play(scene)

    def test_plain_function_is_undone_as_a_step(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, did = stage.app(), list[str]()

            async def plain(name: str) -> None:
                did.append(name)

            undo = app.coloured(plain)

            async def trip() -> None:
                async with saga_of(app) as saga:
                    saga.undo(undo, "cancel")
                    raise RuntimeError("no")

            flow = app.workflow(trip)
            async with app:
                handle = await flow.start()
                await handle.error()
            assert did == ["cancel"]
            [row] = stage.steps(handle.workflow_id)
            assert row["function_name"].endswith("plain")

        Stage(venue).play(scene)

    def test_saga_that_is_cut_off_by_a_timeout_says_what_is_left(
        self, venue: Venue, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def scene(stage: Stage) -> None:
            app, gate, did, entered = stage.app(), stage.gate(), list[str](), list[str]()

            async def slow() -> None:
                await gate()

            act, wait = noting(app, did), app.step(slow)

            def said() -> list[str]:
                return [text for each in caplog.records if "cut off" in (text := each.getMessage())]

            async def part() -> None:
                async with saga_of(app) as saga:
                    saga.undo(act.raw, "cancel")
                    entered.append("saga")
                    await wait()
                    await act("book")

            async def trip() -> str:
                limit = 0.02
                while not entered:  # which a part may not have come to before its time was over
                    with pytest.raises(TimeoutError):
                        await app.timeout(limit, part)
                    limit *= 2
                gate.open()
                await stage.until(said)
                return "late"

            flow = app.workflow(trip)
            async with app:
                handle = await flow.start()
                assert await handle.result() == "late"
            assert all(handle.workflow_id in text and "act" in text for text in said())
            assert did == []

        with caplog.at_level(logging.WARNING, "holdfast"):
            Stage(venue).play(scene)

    def test_workflow_is_undone_with_as_a_child(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, queue = stage.app(), f"saga-{secrets.token_hex(8)}"

            async def amends(name: str) -> str:
                return name

            amend = app.workflow(amends).raw

            async def trip() -> None:
                async with saga_of(app) as saga:
                    saga.undo(amend, "called")
                    saga.undo(amend.start, "started")
                    saga.undo(amend.options(queue_name=queue).enqueue, "enqueued")
                    saga.undo(app.raw.enqueue, amend.definition.name, ["by name"], queue_name=queue)
                    raise RuntimeError("no")

            flow = app.workflow(trip)
            async with app:
                await app.do("register_queue", queue)
                handle = await flow.start()
                assert str(await handle.error()) == "no"
                children = [row["child_workflow_id"] for row in stage.steps(handle.workflow_id)]
                ids = sorted({each for each in children if each is not None})
                assert len(ids) == 4
                done = [await app.retrieve(each).result() for each in ids]
                assert sorted(done) == ["by name", "called", "enqueued", "started"]

        Stage(venue).play(scene)


def noting(app: App, did: list[str], *, refuses: str | None = None) -> Any:
    """Return a step that notes each call; it raises for *refuses*."""

    async def act(name: str) -> str:
        did.append(name)
        if name == refuses:
            raise ValueError(f"{name} is refused")
        return name

    return app.step(act)
