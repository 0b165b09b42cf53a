"""What is handed to the commit pipeline: a row, and the kind that knows how to write many such rows at once."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from holdfast.db.session import Transaction

R_co = TypeVar("R_co", covariant=True)
Values = tuple[Any, ...]


class Kind(Protocol[R_co]):
    """A kind of durable fact.

    Each row carries a unique key made by the caller and stored with the fact. Both methods may wait for nothing but
    the statements of the transaction they are given.
    """

    @property
    def name(self) -> str:
        """A word for messages."""

    @property
    def one_statement(self) -> bool:
        """True if ``apply`` sends exactly one statement, which then needs no BEGIN and COMMIT around it."""

    async def apply(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[R_co | Exception]:
        """Write all *rows*; return for each, in order, its result, or the error of a row that fails alone.

        A row whose key is already stored must be reported as stored and not be written again: the commit of an
        earlier attempt may land at any moment. Raise only what concerns the whole batch; it is then split and tried
        again, until the row that is to blame stands alone.
        """

    async def recall(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[R_co | None]:
        """After a commit of unknown outcome: return for each row its result if its key is stored, else None."""


class ThreadWaiter:
    """A thread that waits for one operation."""

    __slots__ = ("_gate", "_outcome")

    def __init__(self) -> None:
        self._gate = threading.Lock()
        self._gate.acquire()
        self._outcome: Any = None

    def settle(self, outcome: Any) -> None:
        """Tell the result, or the error."""
        self._outcome = outcome
        self._gate.release()

    def wait(self, timeout: float | None) -> Any:
        """Return the result or raise the error; ``TimeoutError`` when it does not come in time."""
        if not self._gate.acquire(timeout=-1 if timeout is None else timeout):
            raise TimeoutError(
                f"The operation was not confirmed within {timeout:g} s. It is still under way and may be carried out."
            )
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        return self._outcome


class Operation(NamedTuple):
    """One row on its way, who waits for it, and what it weighs in bytes."""

    kind: Kind[Any]
    row: Values
    waiter: asyncio.Future[Any] | ThreadWaiter
    size: int


def weight(row: Values) -> int:
    """Estimate the memory a row holds, in bytes."""
    total = 128
    for value in row:
        kind = type(value)
        if kind is str or kind is bytes:
            total += len(value)
        elif isinstance(value, tuple):
            total += weight(value)
    return total
