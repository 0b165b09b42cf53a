"""What is written of threads, as kinds for the commit pipeline: checkpoints of many tasks share a commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from holdfast.db.operation import Values
    from holdfast.db.queries import Query
    from holdfast.db.session import Transaction
    from holdfast.stores.threads.records import LargeValue, Place, Saved, Write


class PutAll:
    """A kind whose row is a tuple of rows of one batch query. Writing them twice changes nothing the second time."""

    def __init__(self, name: str, query: Query, single: Callable[[Iterable[Values]], list[Values]]) -> None:
        self.name = name
        self._query = query
        self._single = single
        self.one_statement = len(query.statements) == 1

    async def apply(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[bool]:
        """Write all rows."""
        await transaction.execute_batch(self._query, self._single(each for row in rows for each in row))
        return [True] * len(rows)

    async def recall(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[None]:  # noqa: ARG002 -- Kind
        """Say that nothing is known: what may be there is written again."""
        return [None] * len(rows)


def single_checkpoints(rows: Iterable[Values]) -> list[Values]:
    """Keep the last of the rows of one key: PostgreSQL refuses to touch a row twice in a statement."""
    return list({row[: 4 + row[0]]: row for row in rows}.values())


def single_writes(rows: Iterable[Values]) -> list[Values]:
    """Keep the row that would stand at the end: the first of what stays, the last of what is replaced."""
    kept: dict[Values, Values] = {}
    for row in rows:
        if row[4] < 0 or row[:5] not in kept:
            kept[row[:5]] = row
    return list(kept.values())


def checkpoint_rows(saved: Saved, values: Sequence[LargeValue]) -> Values:
    """Return the rows of a checkpoint and its large values, for ``thread_put``."""
    thread_id, checkpoint_ns, checkpoint_id = saved.place
    own = (
        *(0, thread_id, checkpoint_ns, checkpoint_id, saved.parent_id, saved.run_id, saved.format, saved.data),
        *(saved.metadata, msgspec.json.encode(sorted(saved.large.items())).decode()),
    )
    others = (
        (1, thread_id, checkpoint_ns, each.channel, each.version, None, each.format, each.data, None, None)
        for each in values
    )
    return (own, *others)


def write_rows(place: Place, writes: Sequence[Write]) -> Values:
    """Return the rows of what a task has written, for ``thread_put_writes``."""
    return tuple((*place, *write) for write in writes)
