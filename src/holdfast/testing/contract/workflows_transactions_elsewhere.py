"""The contract of transactions whose data is in another database than the run: exactly once by a row of outputs.

The venue is where the data is; the runs are in a SQLite file. Each scene is played over ``database=`` and over
``engine=`` of SQLAlchemy.
"""

from __future__ import annotations

import secrets
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.db import DatabaseURL, DialectName, SyncConnectionManager
from holdfast.errors import ConfigurationError, TransactionBroken
from holdfast.testing.colours import Colour
from holdfast.testing.contract.workflows_stage import Stage
from holdfast.testing.contract.workflows_transactions import Accounts, Refused, transaction, workflow_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from holdfast.db.session import Row
    from holdfast.testing.contract.venue import Venue
    from holdfast.testing.contract.workflows_stage import App, Flow, Life

_DRIVERS = {
    (DialectName.SQLITE, Colour.SYNC): "sqlite",
    (DialectName.SQLITE, Colour.ASYNC): "sqlite+aiosqlite",
    (DialectName.POSTGRES, Colour.SYNC): "postgresql+psycopg",
    (DialectName.POSTGRES, Colour.ASYNC): "postgresql+asyncpg",
    (DialectName.MYSQL, Colour.SYNC): "mysql+pymysql",
    (DialectName.MYSQL, Colour.ASYNC): "mysql+asyncmy",
}
_WAYS = pytest.mark.parametrize("way", ["database", "engine"])


class SessionTx:
    """A session of SQLAlchemy of either colour with the verbs of a transaction."""

    def __init__(self, app: App, raw: Any) -> None:
        self._app = app
        self.raw = raw

    async def execute(self, sql: str, *args: Any) -> int:
        return int((await self._run(sql, args)).rowcount)

    async def fetchone(self, sql: str, *args: Any) -> Any:
        return (await self._run(sql, args)).mappings().first()

    async def do(self, verb: str) -> Any:
        """Call a method of the session."""
        return await self._app.value(getattr(self.raw, verb)())

    async def _run(self, sql: str, args: tuple[Any, ...]) -> Any:
        from sqlalchemy import text  # noqa: PLC0415 -- only for those who try this way

        names = iter(range(len(args)))
        named = "".join(f":p{next(names)}" if part == "?" else part for part in sql)
        values = {f"p{number}": value for number, value in enumerate(args)}
        return await self._app.value(self.raw.execute(text(named), values))


class Elsewhere:
    """Data in the venue, and a stage for applications whose runs are in a file."""

    def __init__(self, venue: Venue, way: str, folder: str) -> None:
        self.venue = venue
        self.way = way
        self.dialect = venue.dialect
        self.stage = Stage(replace(venue, url=f"sqlite:///{Path(folder) / 'runs.sqlite'}"))
        self.data = SyncConnectionManager(venue.url, pool_size=2)
        self._engine: Any = None

    def rows(self, sql: str, *args: Any) -> list[Row]:
        """Read from the data."""
        return self.data.fetch(sql, *args)

    def execute(self, sql: str, *args: Any) -> int:
        """Write to the data behind everybody's back."""
        return self.data.execute(sql, *args)

    @property
    def table(self) -> str:
        """The name of the table of outputs."""
        return "holdfast.transaction_outputs" if self.dialect is DialectName.POSTGRES else "transaction_outputs"

    def outputs(self, workflow_id: str) -> list[Any]:
        """Return the outputs of a run."""
        rows = self.rows(f"SELECT output FROM {self.table} WHERE workflow_id = ? ORDER BY identity", workflow_id)
        return [row["output"] for row in rows]

    def transaction(self, app: App, body: Callable[..., Any], **options: Any) -> Callable[..., Awaitable[Any]]:
        """Register *body* as a transaction whose data is here."""
        if self.way == "database":
            return transaction(app, body, database=self.venue.url, **options)
        return _session_transaction(app, body, self.engine, **options)

    @property
    def engine(self) -> Any:
        """An engine of SQLAlchemy of the venue's colour."""
        if self._engine is None:
            self._engine = _engine_for(self.venue)
        return self._engine

    async def dispose(self) -> None:
        """End what SQLAlchemy keeps open."""
        if self._engine is not None:
            made = self._engine.dispose()
            if self.venue.colour is Colour.ASYNC:
                await made


def _session_transaction(
    app: App, body: Callable[..., Any], engine: Any, **options: Any
) -> Callable[..., Awaitable[Any]]:
    async def called(session: Any, *args: Any) -> Any:
        return await body(SessionTx(app, session), *args)

    raw = app.raw.transaction(name=body.__name__, engine=engine, **options)(app.coloured(called))

    async def call(*args: Any) -> Any:
        return await app.value(raw(*args))

    return call


def _engine_for(venue: Venue) -> Any:
    from sqlalchemy import URL, create_engine  # noqa: PLC0415 -- only for those who try this way
    from sqlalchemy.ext.asyncio import create_async_engine  # noqa: PLC0415 -- likewise

    url = DatabaseURL.parse(venue.url)
    made = URL.create(
        _DRIVERS[url.dialect, venue.colour],
        username=url.user,
        password=url.password,
        host=url.host,
        port=url.port,
        database=url.path or url.database,
    )
    return create_async_engine(made) if venue.colour is Colour.ASYNC else create_engine(made)


def play(venue: Venue, way: str, scene: Callable[[Elsewhere, Stage], Coroutine[Any, Any, None]]) -> None:
    """Play *scene* with the data in *venue*."""
    with tempfile.TemporaryDirectory() as folder:
        elsewhere = Elsewhere(venue, way, folder)

        async def played(stage: Stage) -> None:
            try:
                await scene(elsewhere, stage)
            finally:
                for app in stage._apps:  # noqa: SLF001 -- closed before who still waits goes on and connects again
                    await app.close()
                await elsewhere.dispose()

        with elsewhere.data:
            elsewhere.stage.play(played)


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
    def test_output_that_was_never_filled_shows_a_broken_transaction(self, venue: Venue, way: str) -> None:
        async def scene(elsewhere: Elsewhere, stage: Stage) -> None:
            app, accounts = stage.app(), Accounts(elsewhere)

            async def pay(tx: Any) -> int:
                return await accounts.pay(tx, 30)

            call = elsewhere.transaction(app, pay)
            flow = workflow_of(app, call)
            async with app:
                await flow()
                run_id = f"broken-{secrets.token_hex(6)}"
                elsewhere.execute(
                    f"INSERT INTO {elsewhere.table} (workflow_id, generation, identity, created_at) "
                    "VALUES (?, 0, '0', 0)",
                    run_id,
                )
                error = await (await flow.options(workflow_id=run_id).start()).error()
                assert type(error) is TransactionBroken
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


class SessionContract:
    """What is particular to sessions of SQLAlchemy."""

    def test_commit_of_the_function_is_refused(self, venue: Venue) -> None:
        async def scene(elsewhere: Elsewhere, stage: Stage) -> None:
            app, accounts = stage.app(), Accounts(elsewhere)

            async def pay(tx: Any) -> int:
                left = await accounts.pay(tx, 30)
                await tx.do("commit")
                return left

            call = elsewhere.transaction(app, pay)
            flow = workflow_of(app, call)
            async with app:
                error = await (await flow.start()).error()
                assert type(error) is TransactionBroken
                assert "commit()" in str(error)
                assert accounts.all() == {"ann": 100, "bob": 100}

        play(venue, "engine", scene)

    def test_rollback_of_the_function_is_noticed(self, venue: Venue) -> None:
        async def scene(elsewhere: Elsewhere, stage: Stage) -> None:
            app, accounts = stage.app(), Accounts(elsewhere)

            async def pay(tx: Any) -> int:
                left = await accounts.pay(tx, 30)
                await tx.do("rollback")
                return left

            call = elsewhere.transaction(app, pay)
            flow = workflow_of(app, call)
            async with app:
                handle = await flow.start()
                assert type(await handle.error()) is TransactionBroken
                assert accounts.all() == {"ann": 100, "bob": 100}
                assert elsewhere.outputs(handle.workflow_id) == []

        play(venue, "engine", scene)

    def test_commit_behind_the_session_is_noticed(self, venue: Venue) -> None:
        async def scene(elsewhere: Elsewhere, stage: Stage) -> None:
            app, accounts = stage.app(), Accounts(elsewhere)

            async def pay(tx: Any) -> int:
                left = await accounts.pay(tx, 30)
                await tx.execute("COMMIT")
                return left

            call = elsewhere.transaction(app, pay)
            flow = workflow_of(app, call)
            async with app:
                assert type(await (await flow.start()).error()) is TransactionBroken

        play(venue, "engine", scene)

    def test_error_of_the_driver_is_the_outcome(self, venue: Venue) -> None:
        async def scene(elsewhere: Elsewhere, stage: Stage) -> None:
            app, accounts = stage.app(), Accounts(elsewhere)

            async def pay(tx: Any) -> int:
                await accounts.pay(tx, 30)
                await tx.execute(f"INSERT INTO {accounts.name} VALUES ('ann', 1)")
                return 0

            call = elsewhere.transaction(app, pay)
            flow = workflow_of(app, call)
            async with app:
                error = await (await flow.start()).error()
                assert "IntegrityError" in f"{type(error).__name__} {error}"
                assert accounts.all() == {"ann": 100, "bob": 100}

        play(venue, "engine", scene)

    def test_engine_of_the_other_colour_is_refused(self, venue: Venue) -> None:
        async def scene(elsewhere: Elsewhere, stage: Stage) -> None:
            app = stage.app()

            def plain(session: Any) -> None:
                """Never called."""

            async def waiting(session: Any) -> None:
                """Never called."""

            other = plain if stage.colour is Colour.ASYNC else waiting
            with pytest.raises(ConfigurationError, match="AsyncEngine goes with async def"):
                app.raw.transaction(engine=elsewhere.engine)(other)
            with pytest.raises(ConfigurationError, match="not both"):
                app.raw.transaction(engine=elsewhere.engine, database="x.sqlite")
            with pytest.raises(ConfigurationError, match="an Engine or AsyncEngine of SQLAlchemy, not str"):
                app.raw.transaction(engine="sqlite://")(plain)

        play(venue, "engine", scene)
