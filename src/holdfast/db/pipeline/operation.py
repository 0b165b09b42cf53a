"""What is handed to the commit pipeline: a row, and the kind that knows how to write many such rows at once."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from msgspec import Struct

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping, Sequence

    from holdfast.db.queries.queries import Query
    from holdfast.db.session import Transaction

    Groups = dict["Kind[Any]", tuple[list[int], list["Values"]]]

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
        again, until the row that is to blame stands alone. ``Conflict`` says that a row is stored already: before
        anything is split, all of them are asked about.
        """

    async def recall(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[R_co | None]:
        """After a commit of unknown outcome: return for each row its result if its key is stored, else None."""


@runtime_checkable
class Witness(Protocol):
    """A kind of which can be told, long after a row was written, whether the database has lost it."""

    async def stands(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[bool | None]:
        """Return for each row that was committed: True if it is there, and False if it was lost.

        It was lost if all is as it was before, though nobody but its writer could have set that back. None if neither
        can be told: what was written may have been changed or deleted by others since.
        """


class Unwritten:
    """Marks a result that says: nothing was written, what was wanted is there already."""

    __slots__ = ()


class Counted(ABC):
    """A kind that writes its rows with one query, and tells by how many it touched whether all of them took place.

    The first value of a row is the id of what it changes. If the query is one statement, rows of several such kinds
    that change different things may be written by one statement. Where rows commit with that one statement,
    *at_once* is sent instead, if there is such a query: the same, but it may raise ``Conflict`` if a row is stored
    already. They are then asked for, and written by the query.
    """

    name: str

    def __init__(self, query: Query, constants: Mapping[str, Any], at_once: Query | None = None) -> None:
        self.query = query
        self.at_once = at_once or query
        self.constants = constants
        self.one_statement = len(query.statements) == 1

    async def apply(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[Any]:
        touched = await transaction.execute_batch(self.query, rows, **self.constants)
        return await self.judge(transaction, rows, touched)

    @abstractmethod
    async def judge(self, transaction: Transaction, rows: Sequence[Values], touched: int) -> Sequence[Any]:
        """Return the outcomes of *rows*, which the query was just run for, in order."""

    @abstractmethod
    async def recall(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[Any]:
        """Return what ``Kind.recall`` returns."""


class Fleeting:
    """Marks a kind whose rows may be lost with the machine, since nobody outlives it to whom they matter.

    All processes of a SQLite file are on one machine. There a batch of nothing but such rows does not wait for the
    disk: every process sees it, it survives the end of any, and it is on the disk before the next commit that waits is.
    A server and its clients do not go down together, so elsewhere the mark changes nothing.
    """


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


class Operation(Struct, eq=False):
    """One row on its way, who waits for it, and what it weighs in bytes.

    *missed* holds the outcome if it came while its task was being cancelled, and so could not be told.
    """

    kind: Kind[Any]
    row: Values
    waiter: asyncio.Future[Any] | ThreadWaiter
    size: int
    missed: tuple[Any] | None = None


_NOTHING_WRITTEN = BaseException, Unwritten


def written(outcome: Any) -> bool:
    """Whether an outcome says that its operation was written."""
    return not isinstance(outcome, _NOTHING_WRITTEN)


def grouped(operations: Sequence[Operation]) -> Groups:
    """Return the places and the rows of *operations* by their kinds."""
    groups: Groups = {}
    for place, operation in enumerate(operations):
        group = groups.get(operation.kind)
        if group is None:
            group = groups[operation.kind] = [], []
        group[0].append(place)
        group[1].append(operation.row)
    return groups


def weight(row: Values) -> int:
    """Estimate the memory a row holds, in bytes."""
    total = 128
    for value in row:
        if value is None:
            continue
        kind = type(value)
        if kind is str or kind is bytes:
            total += len(value)
        elif kind is not int and isinstance(value, tuple):
            total += weight(value)
    return total
