"""What is written of threads, as kinds for the commit pipeline: checkpoints of many tasks share a commit."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Protocol

import msgspec

from holdfast.db.url import DialectName
from holdfast.errors import StorageError
from holdfast.stores.threads.pruning import deltas_of, has_deltas

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from holdfast.db.pipeline.operation import Values
    from holdfast.db.queries.queries import Queries, Query
    from holdfast.db.session import Transaction
    from holdfast.stores.threads.records import LargeValue, Place, Saved, Write


_CHECKPOINT = (
    *("part", "thread_id", "checkpoint_ns", "name", "other", "run_id", "format", "data"),
    *("metadata", "large"),
)
_WRITE = (
    "part",
    "thread_id",
    "checkpoint_ns",
    "checkpoint_id",
    "task_id",
    "idx",
    "channel",
    "format",
    "data",
    "task_path",
)


class Put(Protocol):
    """A kind whose row is a tuple of rows of one shape. Writing them twice changes nothing the second time."""

    @property
    def name(self) -> str:
        """A word for messages."""

    @property
    def one_statement(self) -> bool:
        """Whether all rows of all tuples are one statement."""

    async def apply(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[bool]:
        """Write all rows."""

    async def recall(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[None]:
        """Say that nothing is known: what may be there is written again."""


class PutAll:
    """Writes all rows with a batch query: few round trips (PostgreSQL, MariaDB/MySQL).

    *small* is a query that does the same for rows that are all of part 0.
    """

    def __init__(
        self,
        name: str,
        query: Query,
        single: Callable[[Iterable[Values]], list[Values]],
        small: Query | None = None,
    ) -> None:
        self.name = name
        self._query = query
        self._single = single
        self._small = small
        self.one_statement = len(query.statements) == 1

    def lone(self, row: Values) -> tuple[str, Values] | None:
        """Return the statement that writes *row* and commits by itself, with its arguments; None if it takes more."""
        rows = self._single(row)
        calls = self._for(rows).batch(rows)
        return calls[0] if len(calls) == 1 else None

    async def apply(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[bool]:
        """Write all rows."""
        single = self._single(each for row in rows for each in row)
        await transaction.execute_batch(self._for(single), single)
        return [True] * len(rows)

    async def recall(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[None]:  # noqa: ARG002 -- Kind
        """Say that nothing is known: what may be there is written again."""
        return [None] * len(rows)

    def _for(self, rows: Iterable[Values]) -> Query:
        return self._query if self._small is None or any(row[0] for row in rows) else self._small


class PutEach:
    """Writes row by row (SQLite): the first value of a row says with which of *queries*; *names* are its columns."""

    one_statement = False

    def __init__(self, name: str, names: Sequence[str], queries: Sequence[Query]) -> None:
        self.name = name
        statements = [statement for query in queries for statement in query.statements]
        self._texts = [(each.text, itemgetter(*map(names.index, each.order))) for each in statements]
        self._data = names.index("data")

    def call(self, row: Values) -> tuple[str, Values]:
        """Return the statement that writes one of the rows, with its arguments."""
        text, take = self._texts[row[0]]
        return text, take(row)

    def size(self, row: Values) -> int:
        """Return how many bytes of data one of the rows has."""
        return len(row[self._data])

    async def apply(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[bool]:
        """Write all rows."""
        for row in rows:
            for each in row:
                text, arguments = self.call(each)
                await transaction.execute(text, *arguments)
        return [True] * len(rows)

    async def recall(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[None]:  # noqa: ARG002 -- Kind
        """Say that nothing is known: what may be there is written again."""
        return [None] * len(rows)


class PutHeld:
    """A kind for checkpoints that need what was stored before: values that did not change, or their parent.

    Its row is the rows of *put*, the keys of those values, that of the parent, if any, and the error to tell without
    it. All of them are held until the commit, so that nobody deletes them meanwhile. Where a value is gone nothing is
    written, and the result is False; where the parent is gone the checkpoint could never be read again, and is refused.
    """

    name = "checkpoint that needs others"
    one_statement = False

    def __init__(self, put: Put, hold_values: Query, hold_checkpoints: Query) -> None:
        self._put = put
        self._hold_values = hold_values
        self._hold_checkpoints = hold_checkpoints

    async def apply(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[bool | Exception]:
        """Write the rows that find what they need."""
        values = await self._held(transaction, self._hold_values, {key for _, keys, _, _ in rows for key in keys})
        parents = await self._held(transaction, self._hold_checkpoints, {key for _, _, keys, _ in rows for key in keys})
        outcomes: list[bool | Exception] = [
            row[3] if not parents.issuperset(row[2]) else values.issuperset(row[1]) for row in rows
        ]
        whole = [row[0] for row, outcome in zip(rows, outcomes, strict=True) if outcome is True]
        if whole:
            await self._put.apply(transaction, whole)
        return outcomes

    async def recall(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[None]:
        """Say that nothing is known: what may be there is written again."""
        return await self._put.recall(transaction, rows)

    @staticmethod
    async def _held(transaction: Transaction, query: Query, keys: set[Values]) -> set[Values]:
        """Return those of *keys* that are there; they stay there until the end of the transaction."""
        rows = await transaction.fetch_batch(query, sorted(keys))
        return {tuple(row.values()) for row in rows}


def orphaned(saved: Saved) -> StorageError:
    """Return what is told of a checkpoint whose parent is gone."""
    thread_id, _, checkpoint_id = saved.place
    return StorageError(
        f"The checkpoint {checkpoint_id} of the thread {thread_id!r} is a change on top of {saved.parent_id}, which "
        "was deleted meanwhile; it was not stored. Go on from the newest checkpoint of the thread."
    )


def held(saved: Saved, values: Sequence[LargeValue]) -> tuple[Values, Values]:
    """Return the keys of what must be there already: of large values that are not among *values*, of the parent."""
    if not saved.large and not has_deltas(saved.metadata):
        return (), ()
    thread_id, checkpoint_ns, _ = saved.place
    new = {each.channel for each in values}
    keys = tuple((thread_id, checkpoint_ns, *item) for item in saved.large.items() if item[0] not in new)
    needs_parent = saved.parent_id is not None and deltas_of(saved.metadata) - saved.large.keys()
    return keys, ((thread_id, checkpoint_ns, saved.parent_id),) if needs_parent else ()


def single_checkpoints(rows: Iterable[Values]) -> list[Values]:
    """Keep the last of the rows of one key: PostgreSQL refuses to touch a row twice in a statement."""
    return list({row[: 4 + row[0]]: row for row in rows}.values())


def single_writes(rows: Iterable[Values]) -> list[Values]:
    """Keep one row a place: the first where a later one changes nothing, the last where it would replace it."""
    kept: dict[Values, Values] = {}
    for row in rows:
        if row[5] < 0 or row[:6] not in kept:
            kept[row[:6]] = row
    return list(kept.values())


def checkpoint_puts(queries: Queries) -> Put:
    """Return the kind of checkpoints and their large values."""
    if queries.dialect is not DialectName.SQLITE:
        return PutAll("checkpoint", queries["thread_put"], single_checkpoints, queries["checkpoints_put"])
    return PutEach("checkpoint", _CHECKPOINT, [queries["checkpoint_put"], queries["value_put"]])


def write_puts(queries: Queries) -> Put:
    """Return the kind of what tasks have written."""
    if queries.dialect is not DialectName.SQLITE:
        return PutAll("write of a task", queries["thread_put_writes"], single_writes)
    return PutEach("write of a task", _WRITE, [queries["write_put"]])


def checkpoint_rows(saved: Saved, values: Sequence[LargeValue]) -> Values:
    """Return the rows of a checkpoint and its large values, in the order of its columns."""
    thread_id, checkpoint_ns, checkpoint_id = saved.place
    own = (
        *(0, thread_id, checkpoint_ns, checkpoint_id, saved.parent_id, saved.run_id, saved.format, saved.data),
        *(saved.metadata, _large(saved.large)),
    )
    if not values:
        return (own,)
    others = (
        (1, thread_id, checkpoint_ns, each.channel, each.version, None, each.format, each.data, None, None)
        for each in values
    )
    return (own, *others)


def _large(large: Mapping[str, str]) -> str:
    return msgspec.json.encode(sorted(large.items())).decode() if large else "[]"


def write_rows(place: Place, writes: Sequence[Write]) -> Values:
    """Return the rows of what a task has written, in the order of its columns."""
    return tuple((0, *place, *write) for write in writes)
