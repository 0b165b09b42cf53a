"""What happens to checkpoints, as kinds of the commit pipeline: saved, loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.db.url import DialectName

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.db.pipeline.operation import Values
    from holdfast.db.queries.queries import Queries
    from holdfast.db.session import Transaction


class SaveCheckpoints:
    """Rows as in the query ``checkpoints_save``; the result is True. Of several saves of one key the last one stays."""

    name = "checkpoint saved"

    def __init__(self, queries: Queries) -> None:
        self._save = queries["checkpoints_save"]
        self._saved = queries["checkpoints_saved"]
        self.one_statement = len(self._save.statements) == 1

    async def apply(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[bool | Exception]:
        last = {row[0]: row for row in rows}  # no statement may touch a row twice
        await transaction.execute_batch(self._save, list(last.values()))
        return [True] * len(rows)

    async def recall(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[bool | None]:
        keys = [(key,) for key in dict.fromkeys(row[0] for row in rows)]
        found = {row["checkpoint_key"]: row["save_key"] for row in await transaction.fetch_batch(self._saved, keys)}
        return [True if found.get(row[0]) == row[4] else None for row in rows]


class LoadCheckpoints:
    """Rows are (key,); the result is a tuple with the data, empty if there is none. The time of use is set to now.

    MariaDB/MySQL returns nothing from an UPDATE: what is there is read after it. Nothing depends on both being one
    moment, so there is no transaction around them.
    """

    name = "checkpoint loaded"

    def __init__(self, queries: Queries) -> None:
        self._load = queries["checkpoints_load"]
        self._data = queries["checkpoints_data"] if queries.dialect is DialectName.MYSQL else None
        self.one_statement = True  # that writes

    async def apply(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[tuple[bytes, ...] | Exception]:
        keys = list(dict.fromkeys(rows))
        found = await transaction.fetch_batch(self._load, keys)
        if self._data is not None:
            found = await transaction.fetch_batch(self._data, keys)
        loaded = {row["checkpoint_key"]: (bytes(row["data"]),) for row in found}
        return [loaded.get(row[0], ()) for row in rows]

    async def recall(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[tuple[bytes, ...] | None]:  # noqa: ARG002 -- a kind's signature
        return [None] * len(rows)  # a second time does no harm


__all__ = ["LoadCheckpoints", "SaveCheckpoints"]
