"""Transactions in another database than the application's: exactly once by a row of outputs there (I7).

The row is opened with the first statement of the transaction and filled with the last. Opening it waits for an earlier
transaction of the same operation that is still under way, and conflicts once that has committed: so whoever comes
second finds what the first has given back, and does not do it again. A row that was committed and never filled shows
that a statement ended its transaction.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from holdfast import faults
from holdfast.core.durations import milliseconds
from holdfast.db.manager import ConnectionManager
from holdfast.db.url import DialectName
from holdfast.errors import Conflict, DatabaseError, Retryable, TransactionBroken
from holdfast.workflows.operations.operation import Kept
from holdfast.workflows.running.commits import begin_commit
from holdfast.workflows.transactions.conversation import Conversation
from holdfast.workflows.transactions.queries import SCHEMA, transaction_queries

if TYPE_CHECKING:
    from holdfast.db import Transaction
    from holdfast.db.manager import TransactionBlock
    from holdfast.db.queries.queries import Queries
    from holdfast.model.workflow import Duration
    from holdfast.workflows.engine.engine import Engine
    from holdfast.workflows.operations.operation import Operation
    from holdfast.workflows.transactions.home import TransactionDefinition

logger = logging.getLogger("holdfast.workflows")

KEEP = timedelta(days=30)
_EVERY = timedelta(days=1)
_AT_A_TIME = 500
_SHORTEST_TIMEOUT = 1.0


def key_of(operation: Operation) -> dict[str, Any]:
    """Return what an output is found by: the same for every execution of a generation.

    A run of another application may have the same id, and so may one that is started after this one was deleted; its
    creation key is its own.
    """
    run = operation.run
    return {
        "workflow_id": run.id,
        "creation_key": run.creation_key,
        "generation": run.generation,
        "identity": operation.identity,
    }


def unfinished(name: str) -> TransactionBroken:
    """Return the error for an output that was committed and never filled."""
    return TransactionBroken(
        f"An earlier execution of the transaction {name!r} was ended by one of its statements before its outcome was "
        "in it: a part of its writes is there, and it is not done again. See what it wrote, and take out the statement "
        "that commits."
    )


class OtherDatabase:
    """A database by its URL, opened when it is first needed. Belongs to the engine's loop."""

    outlasts = False

    def __init__(self, engine: Engine, url: str) -> None:
        self._engine = engine
        self._url = url
        self.forget()

    def forget(self) -> None:
        """Be as if never opened; in a forked child, where the connections are the parent's."""
        self._opening = asyncio.Lock()
        self._opened: tuple[ConnectionManager, Queries] | None = None
        self._forgetting: asyncio.Task[None] | None = None

    async def begin(self, definition: TransactionDefinition, operation: Operation | None) -> Conversation | Kept:
        """Open a transaction and the row of its output; or return the output that is there."""
        manager, queries = await self._open()
        opened = Conversation(manager.transaction(isolation=definition.isolation), _begun, queries, definition.name)
        if operation is None:
            return opened
        try:
            transaction = await opened.transaction()
            await transaction.execute(queries["output_open"], **key_of(operation))
        except Conflict:
            await opened.end(keep=False)
            return await self._found(definition, operation)
        except BaseException:
            await opened.end(keep=False)
            raise
        return opened

    async def keep(
        self, opened: Conversation, operation: Operation | None, output: str, serialization: str
    ) -> Kept | None:
        """Fill the row of the output, and commit."""
        if operation is not None:
            try:
                await self._fill(opened, operation, output, serialization)
            except BaseException:
                await opened.end(keep=False)
                raise
            faults.point("transaction.before_commit")
        await opened.end(keep=True)
        faults.point("transaction.committed")
        return None

    async def _fill(self, opened: Conversation, operation: Operation, output: str, serialization: str) -> None:
        begin_commit(operation)
        _, queries = await self._open()
        transaction = await opened.transaction()
        filled = await transaction.execute(
            queries["output_keep"], output=output, serialization=serialization, **key_of(operation)
        )
        if not filled:
            raise unfinished(opened.name)

    async def drop(self, opened: Conversation) -> None:
        """Roll back."""
        await opened.end(keep=False)

    async def recall(self, operation: Operation) -> Kept | None:  # noqa: ARG002 -- see below
        """Return None: whether it was kept shows, beyond doubt, when its row is opened again."""
        return None

    async def forget_outputs(self, older_than: Duration = KEEP) -> int:
        """Delete outputs older than *older_than* seconds, a few at a time; return how many there were.

        An operation whose output is gone would be done again: *older_than* must be longer than any run can take to
        record a transaction that it has committed.
        """
        manager, queries = await self._open()
        gone = 0
        while True:
            deleted = await manager.execute(
                queries["outputs_forget"], older_than_ms=milliseconds(older_than, "older_than"), most=_AT_A_TIME
            )
            gone += deleted
            if deleted < _AT_A_TIME:
                return gone

    async def close(self) -> None:
        """End the connections; the next transaction opens others."""
        if self._forgetting is not None:
            self._forgetting.cancel()
            with suppress(asyncio.CancelledError):
                await self._forgetting
            self._forgetting = None
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened[0].close()

    async def _found(self, definition: TransactionDefinition, operation: Operation) -> Kept:
        manager, queries = await self._open()
        row = await manager.fetchone(queries["output_look"], **key_of(operation))
        if row is None:
            raise Retryable(f"The output of the transaction {definition.name!r} was there and is gone.")
        if row["serialization"] is None:
            raise unfinished(definition.name)
        return Kept(row["output"], row["serialization"])

    async def _open(self) -> tuple[ConnectionManager, Queries]:
        if self._opened is not None:
            return self._opened
        async with self._opening:
            if self._opened is None:
                manager = self._manager()
                try:
                    await manager.initialize()
                    self._opened = manager, await prepared(manager)
                except BaseException:
                    await manager.close()
                    raise
                self._forgetting = asyncio.get_running_loop().create_task(self._forget_daily())
        return self._opened

    def _manager(self) -> ConnectionManager:
        settings = self._engine.settings
        return ConnectionManager(
            self._url,
            world=settings.world,
            command_timeout=max(_SHORTEST_TIMEOUT, settings.lease * 2 / 3),
            longest_pause=settings.lease,
            **settings.connection,
        )

    async def _forget_daily(self) -> None:
        while True:
            try:
                await self.forget_outputs()
            except DatabaseError as error:
                logger.warning("Old outputs of transactions could not be deleted; tried again tomorrow: %s", error)
            await self._engine.settings.world.sleep(_EVERY.total_seconds())


async def _begun(block: TransactionBlock) -> Transaction:
    return await block.begin(with_next=True)


async def prepared(manager: ConnectionManager) -> Queries:
    """Return the queries, with the table of outputs there: made by this process or by another at the same moment."""
    version = "MariaDB"
    if manager.dialect is DialectName.MYSQL:
        [row] = await manager.fetch(transaction_queries(manager.dialect, SCHEMA)["outputs_server_version"])
        version = row["version"]
    queries = transaction_queries(manager.dialect, SCHEMA, server_version=version)
    if await _is_present(manager, queries):
        return queries
    try:
        await _create(manager, queries)
    except DatabaseError:  # on PostgreSQL two who create one thing at once may collide, IF NOT EXISTS or not
        if not await _is_present(manager, queries):
            await _create(manager, queries)
    return queries


async def _is_present(manager: ConnectionManager, queries: Queries) -> bool:
    return bool(await manager.fetch(queries["outputs_present"]))


async def _create(manager: ConnectionManager, queries: Queries) -> None:
    if manager.dialect is DialectName.POSTGRES and not await manager.fetch(queries["outputs_schema_present"]):
        await manager.execute(queries["outputs_schema_create"])
    await manager.execute(queries["outputs_create"])
