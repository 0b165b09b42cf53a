"""The contract of sessions of SQLAlchemy as transactions: the commit is ours, and who takes it is found out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from holdfast.db import DialectName
from holdfast.errors import ConfigurationError, TransactionBroken
from holdfast.testing.colours import Colour
from holdfast.testing.contract.workflows_transactions_elsewhere_stage import Elsewhere, play
from holdfast.testing.contract.workflows_transactions_stage import Accounts, Refused, workflow_of

if TYPE_CHECKING:
    from holdfast.testing.contract.venue import Venue
    from holdfast.testing.contract.workflows_stage import Stage


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

    def test_session_has_the_limits_of_ours_and_then_its_own_again(self, venue: Venue) -> None:
        async def scene(elsewhere: Elsewhere, stage: Stage) -> None:
            app = stage.app(lease=7)

            async def limits(tx: Any, outcome: str) -> list[int]:
                if outcome == "fails":
                    raise Refused
                return [] if elsewhere.dialect is DialectName.SQLITE else await _limits(elsewhere.dialect, tx)

            call = elsewhere.transaction(app, limits)

            async def asking(outcome: str) -> list[int]:
                found: list[int] = await call(outcome)
                return found

            flow = app.workflow(asking)
            async with app:
                own = await call("returns")
                assert await flow("returns") == {DialectName.POSTGRES: [7, 7], DialectName.MYSQL: [7, 3]}.get(
                    elsewhere.dialect, []
                )
                assert await call("returns") == own
                assert isinstance(await (await flow.start("fails")).error(), Refused)
                assert await call("returns") == own

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
            with pytest.raises(ConfigurationError, match="an engine of SQLAlchemy goes in engine="):
                app.raw.transaction(database=elsewhere.engine)
            with pytest.raises(ConfigurationError, match="an Engine or AsyncEngine of SQLAlchemy, not str"):
                app.raw.transaction(engine="sqlite://")(plain)

        play(venue, "engine", scene)


_SECONDS = "SELECT EXTRACT(EPOCH FROM CAST(current_setting('{}') AS interval)) AS found"
_LIMITS = {
    DialectName.POSTGRES: [_SECONDS.format("idle_in_transaction_session_timeout"), _SECONDS.format("lock_timeout")],
    DialectName.MYSQL: [
        "SELECT @@SESSION.idle_transaction_timeout AS found",
        "SELECT @@SESSION.innodb_lock_wait_timeout AS found",
    ],
}


async def _limits(dialect: DialectName, tx: Any) -> list[int]:
    """Return for how many seconds the transaction may be silent, and wait for a row."""
    return [int((await tx.fetchone(query))["found"]) for query in _LIMITS[dialect]]
