"""Replays that do something else than is recorded, on every database and in both colours."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from holdfast.errors import DeterminismError
from holdfast.testing.contract.workflows_replay import double, triple
from holdfast.testing.contract.workflows_stage import Stage

if TYPE_CHECKING:
    from holdfast.testing.contract.venue import Venue
    from holdfast.testing.contract.workflows_stage import App, Flow, Life


class ReplayDiffersContract:
    """A run whose replay differs from its record ends with an error that says so, and does nothing more."""

    @pytest.mark.parametrize("change", ["order", "arguments", "kind"])
    def test_replay_that_differs_is_an_error_that_shows_both(self, venue: Venue, change: str) -> None:
        def build(app: App, life: Life) -> Flow:
            two, three = app.step(double), app.step(triple)

            async def changed() -> None:
                again = life.number == 2
                if again and change == "order":
                    await three(1)
                elif again and change == "kind":
                    await app.do("now")
                else:
                    await two(5 if again else 1)
                await life()

            return app.workflow(changed)

        async def scene(stage: Stage) -> None:
            handle = await stage.relive(build)
            error = await handle.error()
            assert isinstance(error, DeterminismError)
            now = {"order": "triple", "arguments": "other arguments", "kind": "holdfast.now"}[change]
            assert "double" in str(error)
            assert now in str(error)
            assert handle.workflow_id in str(error)

        Stage(venue).play(scene)

    @pytest.mark.parametrize("where", ["workflow", "part"])
    def test_replay_that_ends_before_its_record_does_is_an_error(self, venue: Venue, where: str) -> None:
        def build(app: App, life: Life) -> Flow:
            step = app.step(double)

            async def chain() -> int:
                found: int = await step(1)
                return found if life.number == 2 else await step(found)

            async def shortened() -> int:
                found = await chain() if where == "workflow" else (await app.gather(chain))[0]
                await life()
                return int(found)

            return app.workflow(shortened)

        async def scene(stage: Stage) -> None:
            handle = await stage.relive(build)
            error = await handle.error()
            assert isinstance(error, DeterminismError)
            assert f"'double' at {'1' if where == 'workflow' else '~0.1'}" in str(error)
            assert "without it" in str(error)

        Stage(venue).play(scene)

    def test_workflow_that_catches_the_error_of_a_replay_that_differs_does_nothing_more(self, venue: Venue) -> None:
        ran: list[int] = []

        async def note(number: int) -> None:
            ran.append(number)

        def build(app: App, life: Life) -> Flow:
            step = app.step(note)

            async def forgiving() -> str:
                try:
                    await step(life.number)
                except Exception:  # noqa: BLE001 -- as a workflow may that goes on without the step
                    with contextlib.suppress(DeterminismError):
                        await step(3)
                await life()
                return "done"

            return app.workflow(forgiving)

        async def scene(stage: Stage) -> None:
            handle = await stage.relive(build)
            error = await handle.error()
            assert isinstance(error, DeterminismError)
            assert "with other arguments" in str(error)
            assert ran == [1]

        Stage(venue).play(scene)
