"""The contract of what a function may not do in its transaction: it is refused, or it breaks the transaction."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.db import DialectName
from holdfast.errors import ConfigurationError, MisuseError, NestedTransaction, QueryFailed, TransactionBroken
from holdfast.model.workflow import Retry
from holdfast.testing.colours import Colour
from holdfast.testing.contract.workflows_stage import Stage
from holdfast.testing.contract.workflows_transactions_stage import Accounts, Tx, too_slow, transaction, workflow_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.testing.contract.venue import Venue


class TransactionRefusalsContract:
    """What is refused in a transaction of the application's own database, and what breaks one."""

    def test_statement_that_failed_is_not_got_over(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, accounts = stage.app(), Accounts(stage)

            async def pay(tx: Tx) -> str:
                await accounts.pay(tx, 30)
                with pytest.raises(QueryFailed):
                    await tx.execute("UPDATE no_such_table_of_mine SET x = 1")
                return "all is well"

            call = transaction(app, pay)
            flow = workflow_of(app, call)
            async with app:
                assert type(await (await flow.start()).error()) is QueryFailed
                assert accounts.all() == {"ann": 100, "bob": 100}

        Stage(venue).play(scene)

    def test_statement_that_the_server_breaks_off_is_the_functions_error(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, accounts, tried = stage.app(), Accounts(stage), list[int]()

            async def pay(tx: Tx) -> int:
                tried.append(1)
                await accounts.pay(tx, 30)
                for statement in too_slow(stage.dialect):
                    await tx.execute(statement)
                return 0

            flow = workflow_of(app, transaction(app, pay))
            async with app:
                error = await (await flow.start()).error()
                assert type(error) is QueryFailed
                assert len(tried) == 1
                assert accounts.all() == {"ann": 100, "bob": 100}

        Stage(venue).play(scene)

    def test_commit_and_rollback_as_statements_are_refused(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, accounts = stage.app(), Accounts(stage)
            texts = ["COMMIT", "rollback", "/* now */ COMMIT"]
            if stage.dialect is DialectName.POSTGRES:
                texts += [f"UPDATE {accounts.name} SET cents = 0; COMMIT; BEGIN", "SELECT ';'; ROLLBACK"]

            async def pay(tx: Tx) -> int:
                for text in texts:
                    with pytest.raises(MisuseError):
                        await tx.execute(text)
                return await accounts.pay(tx, 30)

            call = transaction(app, pay)
            flow = workflow_of(app, call)
            async with app:
                assert await flow() == [70]
                assert accounts.all() == {"ann": 70, "bob": 130}

        Stage(venue).play(scene)

    def test_ddl_is_part_of_the_transaction_or_breaks_it(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, accounts, tried = stage.app(), Accounts(stage), list[int]()
            table = f"made_{secrets.token_hex(6)}"

            async def pay(tx: Tx) -> int:
                tried.append(1)
                left = await accounts.pay(tx, 30)
                await tx.execute(f"CREATE TABLE {table} (x INTEGER)")
                return left

            call = transaction(app, pay, retry=Retry(attempts=3, interval=0))
            flow = workflow_of(app, call)
            async with app:
                handle = await flow.start()
                if stage.dialect is DialectName.MYSQL:
                    error = await handle.error()
                    assert type(error) is TransactionBroken
                    assert f"CREATE TABLE {table}" in str(error)
                    (row,) = stage.steps(handle.workflow_id)
                    assert "TransactionBroken" in row["error"]
                else:
                    assert await handle.result() == [70]
                assert tried == [1]
                assert accounts.all() == {"ann": 70, "bob": 130}

        Stage(venue).play(scene)

    def test_broken_transaction_is_not_mended_by_going_on(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, accounts = stage.app(), Accounts(stage)

            async def pay(tx: Tx) -> str:
                with pytest.raises(TransactionBroken):
                    await tx.execute(f"CREATE TABLE made_{secrets.token_hex(6)} (x INTEGER)")
                with pytest.raises(TransactionBroken):
                    await accounts.pay(tx, 30)
                return "all is well"

            call = transaction(app, pay)
            flow = workflow_of(app, call)
            async with app:
                error = await (await flow.start()).error()
                if stage.dialect is DialectName.MYSQL:
                    assert type(error) is TransactionBroken
                assert accounts.all() == {"ann": 100, "bob": 100}

        Stage(venue).play(scene)

    def test_procedure_that_commits_breaks_the_transaction(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, accounts = stage.app(), Accounts(stage)
            procedure = f"sneaky_{secrets.token_hex(6)}"
            if stage.dialect is DialectName.MYSQL:
                stage.execute(f"CREATE PROCEDURE {procedure}() BEGIN COMMIT; START TRANSACTION; END")

            async def pay(tx: Tx) -> int:
                left = await accounts.pay(tx, 30)
                await tx.execute(f"CALL {procedure}()")
                return left

            call = transaction(app, pay)
            flow = workflow_of(app, call)
            async with app:
                error = await (await flow.start()).error()
                assert type(error) is (TransactionBroken if stage.dialect is DialectName.MYSQL else QueryFailed)

        Stage(venue).play(scene)

    def test_what_the_application_offers_is_refused_inside(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, accounts = stage.app(), Accounts(stage)

            async def nothing() -> None:
                return None

            step = app.step(nothing, name="step")
            child = app.workflow(nothing, name="child")

            async def other(_: Tx) -> None:
                return None

            inner = transaction(app, other)

            async def pay(tx: Tx) -> int:
                verbs: list[Callable[[], Awaitable[Any]]] = [
                    step,
                    child,
                    child.start,
                    inner,
                    lambda: app.do("sleep", 1),
                    lambda: app.do("now"),
                ]
                for verb in verbs:
                    with pytest.raises(MisuseError, match=r"The transaction 'pay' called"):
                        await verb()
                return await accounts.pay(tx, 30)

            call = transaction(app, pay)
            flow = workflow_of(app, call, step)
            async with app:
                assert await flow() == [70, None]
                assert await call() == 40
                assert accounts.all() == {"ann": 40, "bob": 160}

        Stage(venue).play(scene)

    def test_manager_of_the_application_is_refused_inside(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, refused = stage.app(), list[bool]()

            async def look(tx: Tx) -> None:
                await tx.fetchone("SELECT 1 AS one")
                engine = app.raw._engine  # noqa: SLF001 -- what every later verb of the application stands on
                fetch = engine.manager.fetch("SELECT 1 AS one")
                with pytest.raises(NestedTransaction):
                    await (fetch if app.colour is Colour.ASYNC else app.value(engine.ask_blocking(fetch)))
                refused.append(True)

            call = transaction(app, look)
            async with app:
                await call()
                assert refused == [True]

        Stage(venue).play(scene)

    def test_handle_is_of_no_use_afterwards(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, kept = stage.app(), list[Tx]()

            async def leak(tx: Tx) -> None:
                await tx.fetchone("SELECT 1 AS one")
                kept.append(tx)

            call = transaction(app, leak)
            async with app:
                await call()
                with pytest.raises(MisuseError, match="has ended"):
                    await kept[0].fetchone("SELECT 1 AS one")

        Stage(venue).play(scene)

    def test_method_as_a_transaction_is_refused(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            with pytest.raises(ConfigurationError, match="is a method"):
                app.raw.transaction(_Shop.sell)

        Stage(venue).play(scene)


class _Shop:
    def sell(self, tx: Any) -> None:
        """Nothing: it is never called."""
