"""The contract of the outbox: a run that is enqueued in a transaction of the user's own is there if its writes are."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.db import ConnectionManager, SyncConnectionManager
from holdfast.errors import Deduplicated, MisuseError, NotInitialized
from holdfast.testing.colours import Colour
from holdfast.testing.contract.workflows_enqueue_stage import Sums, fresh, refusal
from holdfast.testing.contract.workflows_stage import Handle, Stage
from holdfast.testing.contract.workflows_transactions_elsewhere_stage import play

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from holdfast.testing.contract.venue import Venue
    from holdfast.testing.contract.workflows_stage import App
    from holdfast.testing.contract.workflows_transactions_elsewhere_stage import Elsewhere


class Outbox(Sums):
    """An application, a table of the user's beside it, and transactions of its colour."""

    def __init__(self, stage: Stage, **settings: Any) -> None:
        super().__init__(stage, **settings)
        self.table = fresh("orders").replace("-", "_")
        stage.execute(f"CREATE TABLE {self.table} (number INTEGER)")

    async def put(self, transaction: Any, *args: Any, **options: Any) -> Handle:
        """Enqueue in *transaction*."""
        flow = self.queued.options(**options).raw
        return Handle(self.app, await self.app.value(flow.enqueue_in(transaction, *args)))

    async def write(self, transaction: Any, number: int) -> None:
        """Write something of the user's in *transaction*."""
        await self.app.value(transaction.execute(f"INSERT INTO {self.table} VALUES (?)", number))

    def written(self) -> list[int]:
        return [row["number"] for row in self.stage.rows(f"SELECT number FROM {self.table} ORDER BY number")]

    @asynccontextmanager
    async def transaction(self, url: str | None = None) -> AsyncIterator[Any]:
        """Open a transaction of a manager of the user's own."""
        if self.app.colour is Colour.ASYNC:
            async with ConnectionManager(url or self.stage.url) as manager, manager.transaction() as transaction:
                yield transaction
        else:
            with SyncConnectionManager(url or self.stage.url) as blocking, blocking.transaction() as opened:
                yield opened


class Spoiled(Exception):
    """What goes wrong in a transaction."""


class OutboxContract:
    """What ``enqueue_in`` promises."""

    def test_run_and_writes_of_a_transaction_are_one_commit(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            async with Outbox(stage) as box:
                async with box.transaction() as transaction:
                    await box.write(transaction, 1)
                    handle = await box.put(transaction, 1, 2)
                    assert box.waiting() == []
                assert (box.written(), len(box.waiting())) == ([1], 1)
                await box.listen()
                assert await handle.result() == 3

        Stage(venue).play(scene)

    def test_transaction_that_is_rolled_back_enqueues_nothing(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            async with Outbox(stage) as box:
                with pytest.raises(Spoiled):
                    async with box.transaction() as transaction:
                        await box.write(transaction, 1)
                        await box.put(transaction, 1)
                        raise Spoiled
                assert (box.written(), box.waiting()) == ([], [])

        Stage(venue).play(scene)

    def test_refused_run_leaves_the_transaction_as_it_is(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            async with Outbox(stage) as box:
                first = await box.queued.options(deduplication_id="once").enqueue(1)
                async with box.transaction() as transaction:
                    await box.write(transaction, 1)
                    error = await refusal(box.put(transaction, 1, deduplication_id="once"))
                    assert isinstance(error, Deduplicated)
                    chosen = {"deduplication_id": "once", "on_duplicate": "return_existing"}
                    assert (await box.put(transaction, 1, **chosen)).workflow_id == first.workflow_id
                    await box.write(transaction, 2)
                assert (box.written(), len(box.waiting())) == ([1, 2], 1)

        Stage(venue).play(scene)

    def test_transaction_of_the_application_enqueues_with_its_record(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            box = Outbox(stage)
            order = _order(box)

            async def parent(number: int) -> str:
                found: str = await box.app.value(order(number))
                return found

            flow = box.app.workflow(parent)
            async with box:
                await box.listen()
                run_id = await flow(5)
                assert await box.app.retrieve(run_id).result() == 5
                assert await box.app.value(order(6)) != run_id
                assert (box.written(), len(box.waiting())) == ([5, 6], 2)

        Stage(venue).play(scene)

    def test_transaction_of_the_application_that_fails_enqueues_nothing(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            box = Outbox(stage)
            order = _order(box, fails=True)

            async def parent(number: int) -> str:
                found: str = await box.app.value(order(number))
                return found

            flow = box.app.workflow(parent)
            async with box:
                handle = await flow.start(5)
                assert "spoiled" in str(await handle.error())
                assert (box.written(), box.waiting()) == ([], [])

        Stage(venue).play(scene)

    def test_transaction_in_another_database_is_refused(self, venue: Venue) -> None:
        async def scene(elsewhere: Elsewhere, stage: Stage) -> None:
            box = Outbox(stage)

            async def order(transaction: Any) -> None:
                await box.put(transaction.raw, 1)

            call = elsewhere.transaction(box.app, order)
            async with box:
                errors = [await refusal(call())]
                async with box.transaction(elsewhere.venue.url) as transaction:
                    errors.append(await refusal(box.put(transaction, 1)))
                assert [type(error) for error in errors] == [MisuseError, MisuseError]
                assert all("one database" in str(error) for error in errors)
                assert box.waiting() == []

        play(venue, "database", scene)

    def test_what_is_no_open_transaction_of_the_colour_is_refused(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            box = Outbox(stage)

            async def parent() -> None:
                await box.put(object(), 1)

            flow = box.app.workflow(parent)
            assert isinstance(await refusal(box.put(object(), 1)), NotInitialized)
            async with box:
                assert isinstance(await refusal(box.put(object(), 1)), MisuseError)
                handle = await flow.start()
                assert "enqueue()" in str(await handle.error())
                assert box.waiting() == []

        Stage(venue).play(scene)


def _order(box: Outbox, *, fails: bool = False) -> Any:
    """Return a transaction of the application that writes a number and enqueues it; its value is the run's id."""

    async def order(transaction: Any, number: int) -> str:
        await box.write(transaction, number)
        handle = await box.put(transaction, number)
        if fails:
            raise Spoiled("spoiled")
        return handle.workflow_id

    return _transaction(box.app, order)


def _transaction(app: App, body: Any) -> Any:
    return app.raw.transaction(app.coloured(body))
