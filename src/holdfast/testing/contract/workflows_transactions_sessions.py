"""The contract of sessions of SQLAlchemy as transactions: the commit is ours, and who takes it is found out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import ConfigurationError, TransactionBroken
from holdfast.testing.colours import Colour
from holdfast.testing.contract.workflows_transactions_elsewhere_stage import Elsewhere, play
from holdfast.testing.contract.workflows_transactions_stage import Accounts, workflow_of

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
