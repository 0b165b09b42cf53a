"""The contract of transactions: a step's own writes and its record are one commit, exactly once."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import faults
from holdfast.db import DialectName
from holdfast.errors import ConfigurationError, NotInitialized, StepTimeout
from holdfast.model.workflow import Retry
from holdfast.testing.colours import Colour
from holdfast.testing.contract.workflows_stage import Stage
from holdfast.testing.contract.workflows_transactions_stage import Accounts, Refused, Tx, transaction, workflow_of

if TYPE_CHECKING:
    from holdfast.testing.contract.venue import Venue
    from holdfast.testing.contract.workflows_stage import App, Flow, Life


class TransactionContract:
    """Transactions in the application's own database."""

    def test_writes_and_record_are_there_together(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, accounts = stage.app(), Accounts(stage)

            async def pay(tx: Tx, cents: int) -> int:
                return await accounts.pay(tx, cents)

            call = transaction(app, pay)
            flow = workflow_of(app, lambda: call(30), lambda: call(1))
            async with app:
                handle = await flow.start()
                assert await handle.result() == [70, 69]
                assert accounts.all() == {"ann": 69, "bob": 131}
                rows = stage.steps(handle.workflow_id)
                assert [(row["function_name"], row["output"], row["identity"]) for row in rows] == [
                    ("pay", "70", "0"),
                    ("pay", "69", "1"),
                ]
                token = stage.run(handle.workflow_id)["owner_xid"]
                assert {row["owner_xid"] for row in rows} == {token}

        Stage(venue).play(scene)

    def test_replay_returns_the_record_and_writes_nothing(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            accounts = Accounts(stage)
            times: list[int] = []

            def build(app: App, life: Life) -> Flow:
                async def pay(tx: Tx, cents: int) -> int:
                    times.append(life.number)
                    return await accounts.pay(tx, cents)

                call = transaction(app, pay)

                async def paying() -> list[int]:
                    first = await call(30)
                    await life()
                    return [first, await call(1)]

                return app.workflow(paying)

            handle = await stage.relive(build)
            assert await handle.result() == [70, 69]
            assert times == [1, 2]
            assert accounts.all() == {"ann": 69, "bob": 131}

        Stage(venue).play(scene)

    def test_task_that_is_cancelled_during_the_commit_gets_what_was_kept(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, accounts, ran = stage.app(), Accounts(stage), list[int]()

            async def pay(tx: Tx, cents: int) -> int:
                return await accounts.pay(tx, cents)

            call = transaction(app, pay)

            async def chain() -> None:
                ran.append(await call(30))
                ran.append(await call(1))

            async def cancelling() -> bool:
                task = asyncio.create_task(chain())

                def cancel() -> None:
                    task.cancel()

                faults.arm("transaction.before_commit", cancel)
                await asyncio.wait([task])
                return task.cancelled()

            flow = app.workflow(cancelling)
            async with app:
                handle = await flow.start()
                assert await handle.result() is True
                assert ran == [70]
                assert [row["output"] for row in stage.steps(handle.workflow_id)] == ["70"]
                assert accounts.all() == {"ann": 70, "bob": 130}

        if venue.colour is Colour.ASYNC:  # threads cannot be cancelled
            try:
                Stage(venue).play(scene)
            finally:
                faults.disarm()

    def test_error_rolls_back_and_is_recorded(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, accounts = stage.app(), Accounts(stage)

            async def pay(tx: Tx, cents: int) -> None:
                await accounts.pay(tx, cents)
                raise Refused(f"not {cents}")

            call = transaction(app, pay)
            flow = workflow_of(app, lambda: call(30))
            async with app:
                handle = await flow.start()
                error = await handle.error()
                assert (type(error), str(error)) == (Refused, "not 30")
                assert accounts.all() == {"ann": 100, "bob": 100}
                (row,) = stage.steps(handle.workflow_id)
                assert row["output"] is None
                assert "not 30" in row["error"]

        Stage(venue).play(scene)

    def test_retry_tries_again_in_another_transaction(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, accounts, errors = stage.app(), Accounts(stage), [Refused("1"), Refused("2")]

            async def pay(tx: Tx, cents: int) -> int:
                left = await accounts.pay(tx, cents)
                if errors:
                    raise errors.pop()
                return left

            call = transaction(app, pay, retry=Retry(attempts=3, interval=0))
            flow = workflow_of(app, lambda: call(30))
            async with app:
                assert await flow() == [70]
                assert accounts.all() == {"ann": 70, "bob": 130}

        Stage(venue).play(scene)

    def test_value_is_delivered_as_it_is_recorded(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()

            async def pair(_: Tx) -> Any:
                return (1, "b")

            call = transaction(app, pair)
            flow = workflow_of(app, call)
            async with app:
                assert await flow() == [[1, "b"]]
                assert await call() == [1, "b"]

        Stage(venue).play(scene)

    def test_value_that_cannot_be_recorded_rolls_back(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, accounts = stage.app(), Accounts(stage)

            async def pay(tx: Tx) -> Any:
                await accounts.pay(tx, 30)
                return object()

            call = transaction(app, pay)
            flow = workflow_of(app, call)
            async with app:
                error = await (await flow.start()).error()
                assert type(error).__name__ == "CannotSerialize"
                assert accounts.all() == {"ann": 100, "bob": 100}

        Stage(venue).play(scene)

    def test_outside_of_a_workflow_it_is_just_a_transaction(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, accounts = stage.app(), Accounts(stage)

            async def pay(tx: Tx, cents: int) -> int:
                left = await accounts.pay(tx, cents)
                if left < 0:
                    raise Refused("not so much")
                return left

            call = transaction(app, pay)
            with pytest.raises(NotInitialized):
                await call(1)
            async with app:
                assert await call(30) == 70
                with pytest.raises(Refused, match=r"^not so much$"):
                    await call(71)
                assert accounts.all() == {"ann": 70, "bob": 130}

        Stage(venue).play(scene)

    def test_isolation_is_as_asked_for(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, accounts = stage.app(), Accounts(stage)
            gate, tried = stage.gate(), list[int]()

            async def read_twice(tx: Tx) -> list[int]:
                seen = []
                for turn in range(2):
                    row = await tx.fetchone(f"SELECT cents FROM {accounts.name} WHERE who = 'ann'")
                    seen.append(int(row["cents"]))
                    if turn == 0:
                        await gate()
                tried.append(1)
                return seen

            levels = ["READ COMMITTED", "repeatable read", "SERIALIZABLE"]
            calls = {level: transaction(app, read_twice, name=level, isolation=level) for level in levels[1:]}
            flow = workflow_of(app, calls["repeatable read"])
            async with app:
                handle = await flow.start()
                await gate.reached()
                if stage.dialect is not DialectName.SQLITE:  # there nobody else writes meanwhile
                    stage.execute(f"UPDATE {accounts.name} SET cents = 55 WHERE who = 'ann'")
                gate.open()
                assert await handle.result() == [[100, 100]]
            with pytest.raises(ConfigurationError, match="isolation"):
                transaction(app, read_twice, isolation="CHAOS")

        Stage(venue).play(scene)

    def test_serialization_failure_runs_the_function_again(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, accounts, tried = stage.app(), Accounts(stage), list[int]()

            async def pay(tx: Tx) -> int:
                tried.append(1)
                row = await tx.fetchone(f"SELECT cents FROM {accounts.name} WHERE who = 'ann'")
                if len(tried) == 1 and stage.dialect is DialectName.POSTGRES:  # another has it meanwhile
                    stage.execute(f"UPDATE {accounts.name} SET cents = 90 WHERE who = 'ann'")
                left = int(row["cents"]) - 30
                await tx.execute(f"UPDATE {accounts.name} SET cents = ? WHERE who = 'ann'", left)
                return left

            call = transaction(app, pay, isolation="SERIALIZABLE")
            flow = workflow_of(app, call)
            async with app:
                again = stage.dialect is DialectName.POSTGRES
                assert await flow() == [60 if again else 70]
                assert len(tried) == (2 if again else 1)

        Stage(venue).play(scene)

    def test_function_without_statements_is_recorded_too(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, tried = stage.app(), list[int]()

            async def idle(_: Tx) -> str:
                tried.append(1)
                return "idle"

            call = transaction(app, idle)
            flow = workflow_of(app, call)
            async with app:
                handle = await flow.start()
                assert await handle.result() == ["idle"]
                assert [row["output"] for row in stage.steps(handle.workflow_id)] == ['"idle"']
                assert await call() == "idle"

        Stage(venue).play(scene)

    def test_transaction_that_takes_too_long_is_rolled_back(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, accounts = stage.app(), Accounts(stage)

            async def pay(tx: Tx) -> int:
                left = await accounts.pay(tx, 30)
                await stage.pause(0.3)
                return left

            call = transaction(app, pay, timeout=0.2)
            flow = workflow_of(app, call)
            async with app:
                error = await (await flow.start()).error()
                assert type(error) is StepTimeout
                assert accounts.all() == {"ann": 100, "bob": 100}

        Stage(venue).play(scene)

    def test_superseded_execution_keeps_nothing(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            accounts = Accounts(stage)
            first, second = stage.app(), stage.app()
            gate = stage.gate()

            def build(app: App, number: int) -> Flow:
                async def pay(tx: Tx) -> int:
                    if number == 1:
                        await gate()
                    return await accounts.pay(tx, number)

                call = transaction(app, pay)
                return workflow_of(app, call)

            flow = build(first, 1)
            await first.launch()
            handle = await flow.start()
            await gate.reached()
            await stage.crash(first)
            flow = build(second, 2)
            await second.launch()
            again = await flow.options(workflow_id=handle.workflow_id).start()
            assert await again.result() == [98]
            gate.open()
            assert await handle.result() == [98]
            assert accounts.all() == {"ann": 98, "bob": 102}
            (row,) = stage.steps(handle.workflow_id)
            assert row["output"] == "98"

        Stage(venue).play(scene)

    def test_recovered_run_is_cleared_of_suspicion_by_its_transaction(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            accounts = Accounts(stage)
            seen: list[int] = []

            def build(app: App, life: Life) -> Flow:
                async def pay(tx: Tx) -> int:
                    return await accounts.pay(tx, 1)

                call = transaction(app, pay)

                async def paying() -> int:
                    await life()
                    paid: int = await call()
                    seen.append(stage.run(app.raw.workflow_id)["recovery_attempts"])
                    return paid

                return app.workflow(paying)

            handle = await stage.relive(build)
            assert await handle.result() == 99
            assert seen == [0]

        Stage(venue).play(scene)

    def test_many_at_once_lose_no_update(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, accounts = stage.app(), Accounts(stage)

            async def pay(tx: Tx, cents: int) -> int:
                return await accounts.pay(tx, cents)

            call = transaction(app, pay)

            async def paying() -> int:
                left = await app.gather(*[lambda: call(1)] * 10)
                return len(set(left))

            flow = app.workflow(paying)
            async with app:
                assert await flow() == 10
                assert accounts.all() == {"ann": 90, "bob": 110}

        Stage(venue).play(scene)

    def test_handle_is_freed_without_the_garbage_collector(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, accounts = stage.app(), Accounts(stage)
            handles: list[weakref.ref[Any]] = []

            async def pay(tx: Tx) -> int:
                handles.append(weakref.ref(tx.raw))
                return await accounts.pay(tx, 1)

            call = transaction(app, pay)

            async def paying() -> list[bool]:
                await call()
                return [handle() is None for handle in handles]

            flow = app.workflow(paying)
            async with app:
                gc.disable()
                try:
                    assert await flow() == [True]
                finally:
                    gc.enable()

        Stage(venue).play(scene)
