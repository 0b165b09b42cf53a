"""The contract of transactions: a step's own writes and its record are one commit, exactly once."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from holdfast.db import DialectName
from holdfast.errors import (
    ConfigurationError,
    MisuseError,
    NestedTransaction,
    NotInitialized,
    QueryFailed,
    StepTimeout,
    TransactionBroken,
)
from holdfast.model.workflow import Retry
from holdfast.testing.colours import Colour
from holdfast.testing.contract.workflows_stage import Stage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.db.session import Row
    from holdfast.testing.contract.venue import Venue
    from holdfast.testing.contract.workflows_stage import App, Flow, Life


class Refused(Exception):
    """What a function of these tests raises."""


class Observed(Protocol):
    """A database that is looked at from outside."""

    def rows(self, sql: str, *args: Any) -> list[Row]:
        """Read."""

    def execute(self, sql: str, *args: Any) -> int:
        """Write."""


class Tx:
    """A transaction of either colour, awaited."""

    def __init__(self, app: App, raw: Any) -> None:
        self._app = app
        self.raw = raw

    async def execute(self, sql: str, *args: Any) -> int:
        return int(await self._app.value(self.raw.execute(sql, *args)))

    async def fetchone(self, sql: str, *args: Any) -> Any:
        return await self._app.value(self.raw.fetchone(sql, *args))

    async def fetch(self, sql: str, *args: Any) -> Any:
        return await self._app.value(self.raw.fetch(sql, *args))


def transaction(app: App, body: Callable[..., Any], **options: Any) -> Callable[..., Awaitable[Any]]:
    """Register *body*, whose first parameter is a ``Tx``, as a transaction of *app*."""
    name = options.pop("name", body.__name__)

    async def called(tx: Any, *args: Any) -> Any:
        return await body(Tx(app, tx), *args)

    raw = app.raw.transaction(name=name, **options)(app.coloured(called))

    async def call(*args: Any) -> Any:
        return await app.value(raw(*args))

    return call


class Accounts:
    """A table of the user's own: names and amounts."""

    def __init__(self, database: Observed) -> None:
        self._database = database
        self.name = f"accounts_{secrets.token_hex(6)}"
        database.execute(f"CREATE TABLE {self.name} (who VARCHAR(40) NOT NULL PRIMARY KEY, cents INTEGER NOT NULL)")
        for who in ("ann", "bob"):
            database.execute(f"INSERT INTO {self.name} VALUES (?, 100)", who)

    def all(self) -> dict[str, int]:
        """Return what everybody has."""
        return {row["who"]: row["cents"] for row in self._database.rows(f"SELECT who, cents FROM {self.name}")}

    async def pay(self, tx: Tx, cents: int, who: str = "ann", whom: str = "bob") -> int:
        """Move *cents* and return what *who* has left."""
        await tx.execute(f"UPDATE {self.name} SET cents = cents - ? WHERE who = ?", cents, who)
        await tx.execute(f"UPDATE {self.name} SET cents = cents + ? WHERE who = ?", cents, whom)
        row = await tx.fetchone(f"SELECT cents FROM {self.name} WHERE who = ?", who)
        return int(row["cents"])


def workflow_of(app: App, *calls: Callable[[], Awaitable[Any]]) -> Flow:
    """Return a workflow that makes *calls* one after the other and returns what they gave."""

    async def calling() -> list[Any]:
        return [await call() for call in calls]

    return app.workflow(calling)


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

    def test_method_as_a_transaction_is_refused(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            with pytest.raises(ConfigurationError, match="is a method"):
                app.raw.transaction(_Shop.sell)

        Stage(venue).play(scene)


class _Shop:
    def sell(self, tx: Any) -> None:
        """Nothing: it is never called."""


__all__ = ["Accounts", "Refused", "TransactionContract", "Tx", "transaction", "workflow_of"]
