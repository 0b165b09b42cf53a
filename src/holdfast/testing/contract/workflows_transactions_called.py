"""The contract of transactions that are not called by their name: they are transactions all the same."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import MisuseError
from holdfast.testing.colours import Colour
from holdfast.testing.contract.workflows_saga import saga_of
from holdfast.testing.contract.workflows_stage import Stage
from holdfast.testing.contract.workflows_transactions_stage import Accounts

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.testing.contract.venue import Venue
    from holdfast.testing.contract.workflows_stage import App, Flow

WAYS = pytest.mark.parametrize("way", ["run_step", "undo"])
COLOURS = pytest.mark.parametrize("written", list(Colour))


class TransactionCalledContract:
    """``run_step`` of a transaction and one that a saga calls, written in either colour."""

    @WAYS
    @COLOURS
    def test_writes_are_there_once_and_recorded_as_a_transaction(self, venue: Venue, way: str, written: Colour) -> None:
        async def scene(stage: Stage) -> None:
            app, accounts = stage.app(), Accounts(stage)
            flow = calling(app, way, withdrawing(app, written, accounts, lambda: None))
            async with app:
                handle = await flow.start()
                assert str(await handle.error()) == "done"
                assert accounts.all() == {"ann": 70, "bob": 100}
                rows = stage.steps(handle.workflow_id)
                assert [(row["function_name"], row["output"]) for row in rows] == [("withdraw", "30")]

        Stage(venue).play(scene)

    @WAYS
    @COLOURS
    def test_execution_that_has_lost_its_run_writes_nothing(self, venue: Venue, way: str, written: Colour) -> None:
        async def scene(stage: Stage) -> None:
            app, accounts, lost = stage.app(), Accounts(stage), list[int]()

            def lose() -> None:
                taken = (
                    f"UPDATE {stage.table('workflow_status')} SET owner_xid = 'another' WHERE application_version = ?"
                )
                lost.append(stage.execute(taken, stage.version))

            flow = calling(app, way, withdrawing(app, written, accounts, lose))
            async with app:
                await flow.start()
                await stage.until(lambda: lost and not app.raw._engine.runner.running)  # noqa: SLF001 -- what runs here
                assert accounts.all() == {"ann": 100, "bob": 100}

        Stage(venue).play(scene)

    @WAYS
    @COLOURS
    def test_error_rolls_back_however_it_is_called(self, venue: Venue, way: str, written: Colour) -> None:
        async def scene(stage: Stage) -> None:
            app, accounts = stage.app(), Accounts(stage)
            flow = calling(app, way, withdrawing(app, written, accounts, lambda: None), 300)
            async with app:
                handle = await flow.start()
                assert "not 300" in str(await handle.error())
                assert accounts.all() == {"ann": 100, "bob": 100}
                (row,) = stage.steps(handle.workflow_id)
                assert "not 300" in row["error"]

        Stage(venue).play(scene)

    def test_one_that_ends_after_its_part_of_the_workflow_writes_nothing_and_stops_nobody(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, accounts = stage.app(), Accounts(stage)
            late, later, threads, did = threading.Event(), stage.gate(), list[threading.Thread](), list[str]()

            def linger() -> None:
                threads.append(threading.current_thread())
                late.wait(60)

            withdraw = withdrawing(app, Colour.SYNC, accounts, linger)

            async def note(what: str) -> None:
                did.append(what)

            step = app.step(note)

            async def impatient() -> str:
                try:
                    await app.timeout(0.05, lambda: app.do("run_step", withdraw, 30))
                except TimeoutError:
                    await step("given up")
                    await later()
                    await step("gone on")
                return "done"

            flow = app.workflow(impatient)
            async with app:
                handle = await flow.start()
                await later.reached()
                late.set()
                await stage.until(lambda: not threads[0].is_alive())
                later.open()
                assert await handle.result() == "done"
                assert did == ["given up", "gone on"]
                assert stage.run(handle.workflow_id)["executions"] == 1
                assert accounts.all() == {"ann": 100, "bob": 100}

        Stage(venue).play(scene)

    def test_outside_of_a_workflow_it_is_a_transaction(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, accounts = stage.app(), Accounts(stage)
            withdraws = [withdrawing(app, each, accounts, lambda: None, name=each.value) for each in Colour]
            async with app:
                for withdraw in withdraws:
                    assert await app.do("run_step", withdraw, 10) == 10
                    with pytest.raises(ValueError, match="not 300"):
                        await app.do("run_step", withdraw, 300)
                assert accounts.all() == {"ann": 80, "bob": 100}

        Stage(venue).play(scene)

    def test_async_one_that_nothing_would_await_is_refused(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, accounts = stage.app(), Accounts(stage)
            withdraw = withdrawing(app, Colour.ASYNC, accounts, lambda: None)

            def forgetting() -> str:
                with pytest.raises(MisuseError, match="nothing awaits it"):
                    withdraw(30)
                return "refused"

            flow: Any = app.raw.workflow(forgetting)
            async with app:
                handle = await app.value(flow.start())
                assert await app.value(handle.result(timeout=60)) == "refused"
                assert accounts.all() == {"ann": 100, "bob": 100}

        Stage(venue).play(scene)


def withdrawing(
    app: App, written: Colour, accounts: Accounts, first: Callable[[], None], name: str = "withdraw"
) -> Callable[..., Any]:
    """Return a transaction of *app* that calls *first* and takes cents from Ann, written as a function of a colour."""
    take = f"UPDATE {accounts.name} SET cents = cents - ? WHERE who = 'ann'"

    def checked(cents: int) -> int:
        if cents > 100:
            raise ValueError(f"not {cents}")
        return cents

    def plain(tx: Any, cents: int) -> int:
        first()
        tx.execute(take, cents)
        return checked(cents)

    async def awaited(tx: Any, cents: int) -> int:
        first()
        await tx.execute(take, cents)
        return checked(cents)

    made: Callable[..., Any] = app.raw.transaction(name=name)(plain if written is Colour.SYNC else awaited)
    return made


def calling(app: App, way: str, withdraw: Callable[..., Any], cents: int = 30) -> Flow:
    """Return a workflow that has *withdraw* called, and then fails."""

    async def stepping() -> None:
        await app.do("run_step", withdraw, cents)
        raise RuntimeError("done")

    async def undoing() -> None:
        async with saga_of(app) as saga:
            saga.undo(withdraw, cents)
            raise RuntimeError("done")

    return app.workflow(stepping if way == "run_step" else undoing)
