"""The contract of transactions whose data is in another database than the run: exactly once by a row of outputs.

The venue is where the data is; the runs are in a SQLite file. Each scene is played over ``database=`` and over
``engine=`` of SQLAlchemy.
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.db import DialectName
from holdfast.errors import TransactionBroken
from holdfast.testing.colours import Colour
from holdfast.testing.contract.workflows_enqueue_stage import Queued
from holdfast.testing.contract.workflows_stage import Stage
from holdfast.testing.contract.workflows_transactions_elsewhere_stage import Elsewhere, play
from holdfast.testing.contract.workflows_transactions_stage import Accounts, Refused, too_slow, transaction, workflow_of

if TYPE_CHECKING:
    from holdfast.testing.contract.venue import Venue
    from holdfast.testing.contract.workflows_stage import App, Flow, Life

_WAYS = pytest.mark.parametrize("way", ["database", "engine"])


class ElsewhereContract:
    """Transactions in another database."""

    @_WAYS
    def test_writes_and_output_are_there_together_and_the_step_is_recorded(self, venue: Venue, way: str) -> None:
        async def scene(elsewhere: Elsewhere, stage: Stage) -> None:
            app, accounts = stage.app(), Accounts(elsewhere)

            async def pay(tx: Any, cents: int) -> int:
                return await accounts.pay(tx, cents)

            call = elsewhere.transaction(app, pay)
            flow = workflow_of(app, lambda: call(30), lambda: call(1))
            async with app:
                handle = await flow.start()
                assert await handle.result() == [70, 69]
                assert accounts.all() == {"ann": 69, "bob": 131}
                assert elsewhere.outputs(handle.workflow_id) == ["70", "69"]
                assert [row["output"] for row in stage.steps(handle.workflow_id)] == ["70", "69"]

        play(venue, way, scene)

    @_WAYS
    def test_output_that_is_there_is_returned_and_nothing_is_done_again(self, venue: Venue, way: str) -> None:
        async def scene(elsewhere: Elsewhere, stage: Stage) -> None:
            accounts = Accounts(elsewhere)
            times: list[int] = []

            def build(app: App, life: Life) -> Flow:
                async def pay(tx: Any, cents: int) -> int:
                    times.append(life.number)
                    return await accounts.pay(tx, cents)

                call = elsewhere.transaction(app, pay)

                async def paying() -> list[int]:
                    paid = [await call(30)]
                    await life()
                    return [*paid, await call(1)]

                return app.workflow(paying)

            def forget_the_record() -> None:
                """As if the process had died between the commit there and the record here."""
                stage.execute("DELETE FROM operation_outputs")

            handle = await stage.relive(build, between=forget_the_record)
            assert await handle.result() == [70, 69]
            assert times == [1, 2]
            assert accounts.all() == {"ann": 69, "bob": 131}

        play(venue, way, scene)

    @_WAYS
    def test_runs_of_one_id_in_two_applications_do_not_answer_for_each_other(self, venue: Venue, way: str) -> None:
        async def scene(elsewhere: Elsewhere, stage: Stage) -> None:
            accounts, run_id = Accounts(elsewhere), f"order-{secrets.token_hex(6)}"
            apps = stage.app(), elsewhere.other_app()

            async def pay(tx: Any) -> int:
                return await accounts.pay(tx, 30)

            flows = [workflow_of(app, elsewhere.transaction(app, pay)) for app in apps]
            for app, flow, left in zip(apps, flows, (70, 40), strict=True):
                async with app:
                    assert await (await flow.options(workflow_id=run_id).start()).result() == [left]
            assert accounts.all() == {"ann": 40, "bob": 160}

        play(venue, way, scene)

    @_WAYS
    def test_run_that_was_deleted_does_not_answer_for_the_next_one_of_its_id(self, venue: Venue, way: str) -> None:
        async def scene(elsewhere: Elsewhere, stage: Stage) -> None:
            app, accounts, run_id = stage.app(), Accounts(elsewhere), f"order-{secrets.token_hex(6)}"

            async def pay(tx: Any) -> int:
                return await accounts.pay(tx, 30)

            flow = workflow_of(app, elsewhere.transaction(app, pay))
            async with app:
                for left in (70, 40):
                    assert await (await flow.options(workflow_id=run_id).start()).result() == [left]
                    await app.do("delete_workflow", run_id)
            assert accounts.all() == {"ann": 40, "bob": 160}

        play(venue, way, scene)

    @_WAYS
    def test_output_that_was_never_filled_shows_a_broken_transaction(self, venue: Venue, way: str) -> None:
        async def scene(elsewhere: Elsewhere, stage: Stage) -> None:
            app, accounts = stage.app(), Accounts(elsewhere)

            async def pay(tx: Any) -> int:
                return await accounts.pay(tx, 30)

            call = elsewhere.transaction(app, pay)
            flow = workflow_of(app, call)
            async with app:
                await flow()
                queued = Queued(flow, app)
                handle = await queued.enqueue()
                elsewhere.execute(
                    f"INSERT INTO {elsewhere.table} (workflow_id, creation_key, generation, identity, created_at) "
                    "VALUES (?, ?, 0, '0', ?)",
                    handle.workflow_id,
                    stage.run(handle.workflow_id)["creation_key"],
                    int(time.time() * 1000),  # an old one might be forgotten just then
                )
                await app.do("register_queue", queued.queue)
                assert type(await handle.error()) is TransactionBroken
                assert accounts.all() == {"ann": 70, "bob": 130}

        play(venue, way, scene)

    @_WAYS
    def test_error_rolls_back_and_is_recorded_here_only(self, venue: Venue, way: str) -> None:
        async def scene(elsewhere: Elsewhere, stage: Stage) -> None:
            app, accounts = stage.app(), Accounts(elsewhere)

            async def pay(tx: Any) -> None:
                await accounts.pay(tx, 30)
                raise Refused("no")

            call = elsewhere.transaction(app, pay)
            flow = workflow_of(app, call)
            async with app:
                handle = await flow.start()
                assert type(await handle.error()) is Refused
                assert accounts.all() == {"ann": 100, "bob": 100}
                assert elsewhere.outputs(handle.workflow_id) == []
                (row,) = stage.steps(handle.workflow_id)
                assert "no" in row["error"]

        play(venue, way, scene)

    @_WAYS
    def test_outside_of_a_workflow_there_is_no_output(self, venue: Venue, way: str) -> None:
        async def scene(elsewhere: Elsewhere, stage: Stage) -> None:
            app, accounts = stage.app(), Accounts(elsewhere)

            async def pay(tx: Any, cents: int) -> int:
                left = await accounts.pay(tx, cents)
                if left < 0:
                    raise Refused("not so much")
                return left

            call = elsewhere.transaction(app, pay)
            async with app:
                assert await call(30) == 70
                with pytest.raises(Refused):
                    await call(71)
                assert accounts.all() == {"ann": 70, "bob": 130}

        play(venue, way, scene)

    @_WAYS
    def test_ddl_is_part_of_the_transaction_or_breaks_it(self, venue: Venue, way: str) -> None:
        async def scene(elsewhere: Elsewhere, stage: Stage) -> None:
            app, accounts, tried = stage.app(), Accounts(elsewhere), list[int]()

            async def pay(tx: Any) -> int:
                tried.append(1)
                left = await accounts.pay(tx, 30)
                await tx.execute(f"CREATE TABLE made_{secrets.token_hex(6)} (x INTEGER)")
                return left

            call = elsewhere.transaction(app, pay)
            flow = workflow_of(app, call)
            async with app:
                handle = await flow.start()
                if elsewhere.dialect is DialectName.MYSQL:
                    assert type(await handle.error()) is TransactionBroken
                else:
                    assert await handle.result() == [70]
                assert tried == [1]

        play(venue, way, scene)

    @_WAYS
    def test_serialization_failure_runs_the_function_again(self, venue: Venue, way: str) -> None:
        async def scene(elsewhere: Elsewhere, stage: Stage) -> None:
            app, accounts, tried = stage.app(), Accounts(elsewhere), list[int]()

            async def pay(tx: Any) -> int:
                tried.append(1)
                row = await tx.fetchone(f"SELECT cents FROM {accounts.name} WHERE who = 'ann'")
                if len(tried) == 1 and elsewhere.dialect is DialectName.POSTGRES:  # another has it meanwhile
                    elsewhere.execute(f"UPDATE {accounts.name} SET cents = 90 WHERE who = 'ann'")
                left = int(row["cents"]) - 30
                await tx.execute(f"UPDATE {accounts.name} SET cents = ? WHERE who = 'ann'", left)
                return left

            call = elsewhere.transaction(app, pay, isolation="SERIALIZABLE")
            flow = workflow_of(app, call)
            async with app:
                again = elsewhere.dialect is DialectName.POSTGRES
                assert await flow() == [60 if again else 70]
                assert len(tried) == (2 if again else 1)

        play(venue, way, scene)

    @_WAYS
    def test_statement_that_the_server_breaks_off_is_the_functions_error(self, venue: Venue, way: str) -> None:
        async def scene(elsewhere: Elsewhere, stage: Stage) -> None:
            app, accounts, tried = stage.app(), Accounts(elsewhere), list[int]()

            async def pay(tx: Any) -> int:
                tried.append(1)
                await accounts.pay(tx, 30)
                for statement in too_slow(elsewhere.dialect):
                    await tx.execute(statement)
                return 0

            flow = workflow_of(app, elsewhere.transaction(app, pay))
            async with app:
                await (await flow.start()).error()
                assert len(tried) == 1
                assert accounts.all() == {"ann": 100, "bob": 100}

        play(venue, way, scene)

    @_WAYS
    def test_many_at_once_make_one_table_and_lose_no_update(self, venue: Venue, way: str) -> None:
        async def scene(elsewhere: Elsewhere, stage: Stage) -> None:
            app, accounts = stage.app(), Accounts(elsewhere)

            async def pay(tx: Any) -> int:
                return await accounts.pay(tx, 1)

            call = elsewhere.transaction(app, pay)

            async def paying() -> int:
                return len(await app.gather(*[call] * 6))

            flow = app.workflow(paying)
            async with app:
                assert await flow() == 6
                assert accounts.all() == {"ann": 94, "bob": 106}

        play(venue, way, scene)

    @_WAYS
    def test_old_outputs_are_forgotten_and_no_others(self, venue: Venue, way: str) -> None:
        async def scene(elsewhere: Elsewhere, stage: Stage) -> None:
            app, accounts = stage.app(), Accounts(elsewhere)

            async def pay(tx: Any) -> int:
                return await accounts.pay(tx, 1)

            call = elsewhere.transaction(app, pay)
            flow = workflow_of(app, call)
            async with app:
                young = await flow.start()
                assert await young.result() == [99]
                old = await flow.start()
                assert await old.result() == [98]
                elsewhere.execute(
                    f"UPDATE {elsewhere.table} SET created_at = created_at - 3600000 WHERE workflow_id = ?",
                    old.workflow_id,
                )
                homes = app.raw._engine.transactions  # noqa: SLF001 -- its only caller is a task that runs daily
                homes = [*homes._others.values(), *homes._alchemies.values()]  # noqa: SLF001 -- likewise
                for home in homes:
                    forgetting = home.forget_outputs(older_than=1800)
                    if way == "database" and stage.colour is Colour.SYNC:
                        app.raw._engine.ask_blocking(forgetting)  # noqa: SLF001 -- likewise
                    else:
                        await app.value(forgetting)
                assert elsewhere.outputs(old.workflow_id) == []
                assert elsewhere.outputs(young.workflow_id) == ["99"]

        play(venue, way, scene)

    def test_database_of_the_application_itself_is_its_own(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, accounts = stage.app(), Accounts(stage)

            async def pay(tx: Any) -> int:
                return await accounts.pay(tx, 30)

            call = transaction(app, pay, database=venue.url)
            flow = workflow_of(app, call)
            async with app:
                handle = await flow.start()
                assert await handle.result() == [70]
                assert not app.raw._engine.transactions._others  # noqa: SLF001 -- the record was part of it

        Stage(venue).play(scene)
