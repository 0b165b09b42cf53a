"""Transactions in the application's own database: the function's writes and its record are one commit (I7)."""

from __future__ import annotations

import logging
import time
from functools import cached_property, partial
from typing import TYPE_CHECKING

from holdfast import faults
from holdfast.core.backoff import backoff
from holdfast.db.url import DialectName
from holdfast.errors import Conflict, DatabaseError, QueryFailed, Retryable, Superseded, Unavailable, UnknownCommit
from holdfast.model.workflow import WorkflowStatus
from holdfast.workflows.facts import superseded
from holdfast.workflows.operations.operation import Kept
from holdfast.workflows.transactions.carrying import to_the_end
from holdfast.workflows.transactions.conversation import Conversation
from holdfast.workflows.transactions.queries import transaction_queries

if TYPE_CHECKING:
    from holdfast.db import Transaction
    from holdfast.db.manager import TransactionBlock
    from holdfast.db.queries.queries import Queries
    from holdfast.db.session import Row
    from holdfast.workflows.engine.engine import Engine
    from holdfast.workflows.operations.operation import Operation
    from holdfast.workflows.transactions.home import TransactionDefinition

logger = logging.getLogger("holdfast.workflows")


class OwnDatabase:
    """The database that holds the runs. Belongs to the engine's loop."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @cached_property
    def queries(self) -> Queries:
        """The named queries, in the words of this database."""
        settings = self._engine.settings
        return transaction_queries(
            self._engine.manager.dialect, settings.schema, clock_offset_ms=settings.clock_offset_ms
        )

    @cached_property
    def outlasts(self) -> bool:
        """Whether a commit goes on though its task is cancelled: not on MariaDB, whose driver breaks it off."""
        return self._engine.manager.dialect is not DialectName.MYSQL

    async def begin(self, definition: TransactionDefinition, operation: Operation | None) -> Conversation:
        """Return a transaction that begins with its first statement."""
        return self.open(self._engine.manager.transaction(isolation=definition.isolation), definition, operation)

    def open(
        self,
        block: TransactionBlock,
        definition: TransactionDefinition,
        operation: Operation | None,
        *,
        on_thread: bool = False,
    ) -> Conversation:
        """Return a transaction on *block*; from any thread. *on_thread* says that it is driven without a loop."""
        begun = partial(self._begun, operation, on_thread=on_thread)
        return Conversation(block, begun, self.queries, definition.name)

    async def _begun(self, operation: Operation | None, block: TransactionBlock, *, on_thread: bool) -> Transaction:
        """Begin; in a workflow wait for as long as the database is away, as every record does."""
        failures = 0
        while True:
            try:
                return await block.begin(with_next=True)
            except Unavailable as error:
                if operation is None:
                    raise
                failures += 1
                await self._pause(operation, failures, error, on_thread=on_thread)

    async def keep(
        self, opened: Conversation, operation: Operation | None, output: str, serialization: str
    ) -> Kept | None:
        """Write the record under the token, then commit both. Raises ``Superseded`` if the run has another owner."""
        refused = await self.write(opened, operation, output, serialization)
        if refused is None or operation is None:
            return None
        return await to_the_end(self.explain(operation, refused), operation)

    async def write(
        self, opened: Conversation, operation: Operation | None, output: str, serialization: str
    ) -> DatabaseError | None:
        """Write the record under the token and commit; return why that was refused, which ``explain`` understands.

        It waits for nothing but its statements, and for the database to come back if none was sent before.
        """
        if operation is None:
            await opened.end(keep=True)
            return None
        try:
            kept = await self._record(opened, operation, output, serialization)
        except (Conflict, QueryFailed) as refused:
            return refused
        if not kept:
            raise Superseded("another execution owns the run")
        operation.run.suspect = False
        faults.point("transaction.committed")
        return None

    async def explain(self, operation: Operation, refused: DatabaseError) -> Kept:
        """Return the record that is there already, or raise why this one was refused: ``Superseded``, or *refused*."""
        kept = await self.recall(operation)
        if kept is None:
            raise refused
        return kept

    async def _record(self, opened: Conversation, operation: Operation, output: str, serialization: str) -> bool:
        run = operation.run
        try:
            operation.check()
            if run.suspect:
                transaction = await opened.transaction()
                await transaction.execute(self.queries["transaction_progressed"], id=run.id, token=run.token)
            faults.point("transaction.before_commit")
        except BaseException:
            await self.drop(opened)
            raise
        return await opened.end_after(
            self.queries["transaction_record"],
            id=run.id,
            token=run.token,
            position=operation.position,
            name=operation.name,
            identity=operation.identity,
            fingerprint=operation.mark,
            output=output,
            serialization=serialization,
            duration_ms=int((self._engine.settings.world.monotonic() - operation.began) * 1000),
        )

    async def drop(self, opened: Conversation) -> None:
        """Roll back."""
        await opened.end(keep=False)

    async def recall(self, operation: Operation) -> Kept | None:
        """Ask for the record by its position, for as long as the database is away. Raises ``Superseded``."""
        query = self.queries["transaction_recall"]
        failures = 0
        while True:
            try:
                rows: list[Row] = await self._engine.manager.run(
                    lambda transaction: transaction.fetch(query, id=operation.run.id, position=operation.position)
                )
                return _judged(operation, rows[0] if rows else None)
            except (Unavailable, Retryable, UnknownCommit) as error:  # a question that is lost is asked again
                failures += 1
                await self._pause(operation, failures, error)

    async def _pause(self, operation: Operation, failures: int, error: Exception, *, on_thread: bool = False) -> None:
        world = self._engine.settings.world
        if failures == 1 or failures % 20 == 0:
            logger.warning(
                "The transaction %r of run %s waits for the database (attempt %s): %s",
                operation.name,
                operation.run.id,
                failures,
                error,
            )
        pause = backoff(failures, base=0.01, cap=1.0, draw=world.random.random())
        if on_thread:
            time.sleep(pause)  # noqa: ASYNC251 -- no loop is held up by this thread
            self._engine.permit.wait_blocking(operation.check)
        else:
            await world.sleep(pause)
            await self._engine.permit.wait()
        operation.check()


def _judged(operation: Operation, found: Row | None) -> Kept | None:
    """Tell by the tokens whose the run and the record are."""
    token = operation.run.token
    if found is None or found["owner_xid"] != token:
        raise superseded(found)
    if found["recorded_by"] is None:
        if WorkflowStatus(found["status"]).has_ended:
            raise superseded(found)
        return None
    if found["recorded_by"] != token:
        raise Conflict(
            f"Operation {operation.identity} of run {operation.run.id} is recorded already, "
            f"as {found['function_name']}."
        )
    operation.run.suspect = False
    return Kept(found["output"], found["serialization"], found["error"])
