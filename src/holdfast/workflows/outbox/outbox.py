"""Putting a run in a queue within a transaction of the user's own: neither is there without the other.

The row goes in by statements of that transaction, which its owner commits. Nothing here begins, ends or repeats it.
Whoever waits for work is told of the commit where that can be: PostgreSQL sends a notification with it, SQLite's
processes see its log grow, and the end of a transaction of the application is known here. Elsewhere the poll finds it.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from holdfast.db import SyncTransaction, Transaction
from holdfast.db.session import run_sync
from holdfast.errors import MisuseError
from holdfast.workflows.enqueueing.rows import run_meant
from holdfast.workflows.facts import STARTED, EnqueueRuns
from holdfast.workflows.operations.place import WorkflowPlace, here
from holdfast.workflows.running.ticket import Ticket
from holdfast.workflows.transactions.handle import AsyncTransaction
from holdfast.workflows.transactions.handle import Transaction as BlockingHandle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
    from sqlalchemy.orm import Session

    from holdfast.db.pipeline.operation import Values
    from holdfast.db.queries.queries import Queries, Query
    from holdfast.db.session import Row
    from holdfast.workflows.engine.engine import Engine
    from holdfast.workflows.enqueueing.rows import Entry, Work


class OutboxRuns(EnqueueRuns):
    """Enqueues as ever, and has the database tell *channel* of it at the commit, if there is one."""

    def __init__(self, queries: Queries, *, application_id: str, channel: str | None) -> None:
        super().__init__(queries, application_id=application_id)
        self._tell = queries["outbox_tell"]
        self._channel = channel

    async def apply(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[Any]:
        outcomes = await super().apply(transaction, rows)
        if self._channel is not None and STARTED in outcomes:
            await transaction.fetch_batch(self._tell, [(self._channel,)])
        return outcomes


class DjangoConnection(Protocol):
    """``django.db.connection``, or one of its ``connections``, in a block of ``transaction.atomic()``."""

    vendor: str

    def get_autocommit(self) -> bool:
        """Whether it is in no transaction."""

    def cursor(self) -> Any:
        """Return a cursor of it."""


BlockingTransaction: TypeAlias = "SyncTransaction | BlockingHandle | Session | Connection | DjangoConnection"
AwaitedTransaction: TypeAlias = "Transaction | AsyncTransaction | AsyncSession | AsyncConnection"


async def put_in(engine: Engine, transaction: Any, work: Work) -> Ticket:
    """Write the run with statements of *transaction*; ``WorkflowConflict`` or ``Deduplicated`` if it is refused."""
    wanted, kind = _wanted(engine, work), engine.enqueues.outbox
    rows = [wanted.row]
    match transaction:
        case Transaction():
            await engine.premises.check(transaction)
            [outcome] = await kind.apply(transaction, rows)
        case AsyncTransaction():
            [outcome] = await transaction.lend(lambda opened: _put_here(engine, opened, rows))
            transaction.afterwards.append(partial(engine.enqueues.released, [wanted]))
        case _ if _is_alchemy(transaction, awaited=True):
            from holdfast.workflows.outbox.alchemy import apply  # noqa: PLC0415 -- an extra, which is imported if it is used

            [outcome] = await apply(engine, transaction, kind, rows)
        case _:
            raise _unfit(transaction, "async", "an AsyncSession or AsyncConnection")
    return Ticket(run_meant(wanted, outcome), work.codec, None)


def put_in_blocking(engine: Engine, transaction: Any, work: Work) -> Ticket:
    """Do as ``put_in``, on a thread."""
    wanted, kind = _wanted(engine, work), engine.enqueues.outbox
    rows = [wanted.row]
    match transaction:
        case SyncTransaction():
            steady: Any = _Steady(transaction)
            run_sync(engine.premises.check(steady))
            [outcome] = run_sync(kind.apply(steady, rows))
        case BlockingHandle():
            [outcome] = transaction.lend(lambda opened: _put_here(engine, opened, rows))
            transaction.afterwards.append(partial(engine.enqueues.released, [wanted]))
        case _ if _is_alchemy(transaction, awaited=False):
            from holdfast.workflows.outbox.alchemy import apply_blocking  # noqa: PLC0415 -- likewise

            [outcome] = apply_blocking(engine, transaction, kind, rows)
        case _ if _is_django(transaction):
            from holdfast.workflows.outbox import django as outbox_django  # noqa: PLC0415 -- likewise

            [outcome] = outbox_django.apply(engine, transaction, kind, rows)
        case _:
            raise _unfit(transaction, "sync", "a connection of Django, or a Session or Connection")
    return Ticket(run_meant(wanted, outcome), work.codec, None)


async def _put_here(engine: Engine, transaction: Transaction, rows: Sequence[Values]) -> Sequence[Any]:
    await engine.premises.check(transaction)
    return await engine.enqueues.kind.apply(transaction, rows)


def _wanted(engine: Engine, work: Work) -> Entry:
    place = here.get()
    if isinstance(place, WorkflowPlace) and place.run.engine is engine:
        raise MisuseError(
            "enqueue_in() was called in a workflow, where a replay would do it again: do it in a transaction or a "
            "step, or call enqueue(), which is recorded."
        )
    return engine.enqueues.entry(work)


class _Steady:
    """A sync transaction with the verbs of an async one, which never wait."""

    def __init__(self, transaction: SyncTransaction) -> None:
        self._transaction = transaction
        self.session = transaction.session
        self.dialect = transaction.dialect

    async def fetch(self, query: Query) -> list[Row]:
        return self._transaction.fetch(query)

    async def execute_batch(self, query: Query, rows: Sequence[Values], **named: Any) -> int:
        return self._transaction.execute_batch(query, rows, **named)

    async def fetch_batch(self, query: Query, rows: Sequence[Values], **named: Any) -> list[Row]:
        return self._transaction.fetch_batch(query, rows, **named)


def _is_alchemy(transaction: Any, *, awaited: bool) -> bool:
    """Whether it is of SQLAlchemy and the right colour; if nobody has imported that, it is not."""
    if "sqlalchemy" not in sys.modules:
        return False
    from holdfast.workflows.outbox.alchemy import fits  # noqa: PLC0415 -- an extra

    return fits(transaction, awaited=awaited)


def _is_django(transaction: Any) -> bool:
    """Whether it is a connection of Django; if nobody has imported that, it is not."""
    if "django.db" not in sys.modules:
        return False
    from holdfast.workflows.outbox.django import fits  # noqa: PLC0415 -- not a dependency of ours

    return fits(transaction)


def _unfit(transaction: Any, colour: str, alchemy: str) -> MisuseError:
    article = "An" if colour == "async" else "A"
    return MisuseError(
        f"{article} {colour} application enqueues in an open {colour} transaction: that of a manager of holdfast.db, "
        f"the one that a function of @app.transaction is given, or {alchemy} of SQLAlchemy; not in a "
        f"{type(transaction).__qualname__}."
    )
