"""For which application version the runs of schedules are."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.db.queries.queries import Queries
    from holdfast.db.session import Row, Transaction


async def versions_of(transaction: Transaction, queries: Queries, rows: Iterable[Row]) -> dict[str, str]:
    """Return for which version the runs of schedules are, by their workflows: the latest that has it.

    A workflow that no version has is missing: its runs are for whatever version comes and has it.
    """
    workflows = sorted({row["workflow_name"] for row in rows})
    found = await transaction.fetch_batch(queries["versions_of"], [(each,) for each in workflows])
    return {row["workflow"]: row["version_name"] for row in found}


async def version_of(transaction: Transaction, queries: Queries, row: Row) -> str | None:
    """Return the same for one schedule; None if no version has its workflow."""
    return (await versions_of(transaction, queries, [row])).get(row["workflow_name"])


__all__ = ["version_of", "versions_of"]
