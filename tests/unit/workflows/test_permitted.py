"""I13: no user code of a run is begun between a beat that may be too old and the next one."""

from __future__ import annotations

import threading
from math import inf
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import Retry
from holdfast.errors import Retryable, Superseded
from holdfast.testing.colours import Colour
from holdfast.testing.contract import Venue
from holdfast.testing.contract.workflows_stage import Stage
from holdfast.testing.contract.workflows_transactions_stage import Tx, transaction

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from holdfast.testing.contract.workflows_stage import App
    from holdfast.workflows.ownership.permit import Permit


class Beginnings:
    """What was begun, in which order, and whether anything waits for its permit; the first beginning fails."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.waits = threading.Event()
        self.permit: Permit

    def watch(self, app: App) -> None:
        """Note from now on when somebody comes to wait."""
        self.permit = permit = app.raw._engine.permit
        wait, wait_blocking = permit.wait, permit.wait_blocking

        async def noted() -> None:
            if not permit.is_valid():
                self.waits.set()
            await wait()

        def noted_blocking(check: Any) -> None:
            if not permit.is_valid():
                self.waits.set()
            wait_blocking(check)

        permit.wait, permit.wait_blocking = noted, noted_blocking

    def note(self, name: str, error: type[Exception] | None = None) -> None:
        """Say that *name* begins; the permit ends meanwhile, and with *error* the first one fails with it."""
        self.names.append(name)
        if len(self.names) == 1:
            self.permit.withdraw()
            if error is not None:
                raise error("not now")


WHAT = ["run", "child", "step", "transaction", "next attempt", "next try of a transaction"]


def play(
    tmp_path: Path, colour: Colour, what: str, permitted: Callable[[Beginnings, Stage, App], Awaitable[None]]
) -> None:
    """Have *what* wait for its permit, and *permitted* give it."""
    begun = Beginnings()

    async def scene(stage: Stage) -> None:
        app = stage.app(lease=3600)  # no beat comes meanwhile

        async def step(error: bool) -> None:
            begun.note("step", ConnectionError if error else None)

        async def paying(_: Tx, error: bool) -> None:
            begun.note("transaction", Retryable if error else None)

        async def run() -> None:
            begun.note("run")

        steps = app.step(step, retry=Retry(attempts=2, interval=0))
        pays, child = transaction(app, paying), app.workflow(run)

        async def main() -> None:
            if what.startswith("next"):
                await (steps(True) if what == "next attempt" else pays(True))
                return
            begun.note("main")
            match what:
                case "step":
                    await steps(False)
                case "transaction":
                    await pays(False)
                case "child":
                    await child()
                case _:
                    await child.start()

        flow = app.workflow(main)
        async with app:
            begun.watch(app)
            await flow.start()
            await stage.until(lambda: begun.waits.is_set() or len(begun.names) > 1)
            assert len(begun.names) == 1
            await permitted(begun, stage, app)

    Stage(Venue("sqlite", f"sqlite:///{tmp_path}/runs.db", colour)).play(scene)


@pytest.mark.parametrize("colour", list(Colour))
@pytest.mark.parametrize("what", WHAT)
def test_i13_nothing_is_begun_without_a_permit(tmp_path: Path, colour: Colour, what: str) -> None:
    async def permitted(begun: Beginnings, stage: Stage, _: App) -> None:
        begun.permit.renew(inf)
        await stage.until(lambda: len(begun.names) > 1)

    play(tmp_path, colour, what, permitted)


@pytest.mark.parametrize("colour", list(Colour))
@pytest.mark.parametrize("what", WHAT)
def test_i13_nothing_is_begun_of_a_run_that_was_lost_before_it_was_permitted(
    tmp_path: Path, colour: Colour, what: str
) -> None:
    """The beat has found that it was taken for gone: its thread has said so, and the loop has not come round to it."""

    async def permitted(begun: Beginnings, stage: Stage, app: App) -> None:
        runs = list(app.raw._engine.runner.running.values())
        for run in runs:
            run.stop(Superseded("this executor was taken for gone"))
        begun.permit.renew(inf)
        await stage.until(lambda: all(run.ended for run in runs))
        assert len(begun.names) == 1

    play(tmp_path, colour, what, permitted)
