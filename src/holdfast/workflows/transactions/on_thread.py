"""The application's own database, for functions on threads that wait for its answers themselves, past the loop."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.db.session import run_sync
from holdfast.errors import MisuseError
from holdfast.workflows.transactions.asking import Lent
from holdfast.workflows.transactions.handle import Transaction

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from holdfast.workflows.engine.engine import Engine
    from holdfast.workflows.operations.operation import Kept, Operation
    from holdfast.workflows.transactions.asking import Asked
    from holdfast.workflows.transactions.conversation import Conversation
    from holdfast.workflows.transactions.home import TransactionDefinition
    from holdfast.workflows.transactions.own import OwnDatabase

T = TypeVar("T")


class Held:
    """An open transaction of a thread; other threads that its function hands the handle to wait for their turn."""

    def __init__(self, opened: Conversation, name: str) -> None:
        self.opened = opened
        self.handle = Transaction(opened.handle, partial(_in_turn, threading.Lock()), lambda: None, name)

    def mark(self) -> Any:
        """Say that the calling thread is inside."""
        return self.opened.mark()

    def unmark(self, mark: Any) -> None:
        self.opened.unmark(mark)

    def doom(self, error: BaseException | None) -> Exception | None:
        """Return why it cannot be kept."""
        return self.opened.doom(error)


def _in_turn(turn: threading.Lock, statement: Coroutine[Any, Any, T]) -> T:
    with turn:
        return run_sync(statement)


class OnThread:
    """*home*, as a thread sees it that waits for SQLite's writer or for PostgreSQL itself.

    What may take long is *asked* of the loop, and so are whole transactions where the manager wants that. Not for a
    transaction with a timeout: only the loop can end the wait for a statement.
    """

    def __init__(self, engine: Engine, home: OwnDatabase, asked: Asked) -> None:
        self._engine = engine
        self._home = home
        self._asked = asked

    def begin(self, definition: TransactionDefinition, operation: Operation | None) -> Held | Lent | Kept:
        """Return a transaction that begins with its first statement."""
        if self._engine.is_loop_thread():
            raise MisuseError("A sync transaction was called on the event loop, which it would block; make it async.")
        block = self._engine.manager.transaction_on_thread(isolation=definition.isolation)
        if block is None:
            return self._asked.begin(definition, operation)
        return Held(self._home.open(block, definition, operation, on_thread=True), definition.name)

    def keep(self, held: Held | Lent, operation: Operation | None, output: str, serialization: str) -> Kept | None:
        """Write the record and commit."""
        if isinstance(held, Lent):
            return self._asked.keep(held, operation, output, serialization)
        refused = run_sync(self._home.write(held.opened, operation, output, serialization))
        if refused is None or operation is None:
            return None
        return self._asked.ask(self._home.explain(operation, refused))

    def drop(self, held: Held | Lent) -> None:
        """Roll back."""
        if isinstance(held, Lent):
            self._asked.drop(held)
        else:
            run_sync(held.opened.end(keep=False))

    def recall(self, operation: Operation) -> Kept | None:
        """Return the outcome if it was kept."""
        return self._asked.recall(operation)
