"""Kinds of operations that behave in ways the ledger does not."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.db import Transaction
    from holdfast.db.pipeline.operation import Values


class Counter:
    """Reads something and gives ten times the number in each row."""

    name = "counter"
    one_statement = True

    async def apply(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[int]:
        await transaction.fetch("SELECT 1 AS one")
        return [number * 10 for (number,) in rows]

    async def recall(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[int | None]:
        await transaction.fetch("SELECT 1 AS one")
        return [None for _ in rows]


class Miscounter(Counter):
    """Breaks its promise of one outcome for each row."""

    name = "miscounter"

    def __init__(self, *, one_statement: bool) -> None:
        self.one_statement = one_statement

    async def apply(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[int]:
        return [*await super().apply(transaction, rows), 0]


class Dreamer(Counter):
    """Waits for something else than its statements."""

    name = "dreamer"
    one_statement = False

    async def apply(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[Any]:
        await asyncio.sleep(0)
        return await super().apply(transaction, rows)
