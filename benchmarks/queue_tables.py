"""Throughput of a queue when the tables are full of ended runs, and when a snapshot on PostgreSQL is held open.

Promised: with 1,000,000 ended runs, and with a snapshot that is five minutes old, it falls by less than 20 %.

A snapshot does harm by what is written while it is open: of every run that was enqueued, claimed and ended since, the
old versions must stay, in the table and at the head of the index that claims follow. Its age alone does nothing. So
instead of five minutes of work, ``--churn`` runs are enqueued, claimed and ended by statements on the table after the
snapshot was taken, by default as many as 300 a second are in five minutes. Then the queue is measured while it is still
open, in turn with that of a database with the same past and no snapshot. Full tables are measured in turn with empty
ones. One process enqueues and works.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import asyncpg
from yard.databases import makers
from yard.machine import load
from yard.many_runs import analyse, fill
from yard.options import Options
from yard.queue_app import QUEUE, queue_app
from yard.table import print_table

from holdfast.db import ConnectionManager, DialectName

if TYPE_CHECKING:
    import argparse
    from collections.abc import AsyncIterator

_ENQUEUED = """
    INSERT INTO holdfast.workflow_status (workflow_uuid, status, name, queue_name, priority, created_at, updated_at)
    SELECT 'churn-' || i, 'ENQUEUED', 'elsewhere', $1, 0, i, i FROM generate_series(1, $2::int) AS n(i)
"""
_CLAIMED = "UPDATE holdfast.workflow_status SET status = 'PENDING', owner_xid = 'x' WHERE name = 'elsewhere'"
_ENDED = (
    "UPDATE holdfast.workflow_status SET status = 'SUCCESS', owner_xid = NULL, completed_at = created_at"
    " WHERE name = 'elsewhere'"
)


async def _rate(url: str, runs: int) -> float:
    app, noop = queue_app(url)
    async with app:
        queued = noop.options(queue_name=QUEUE)
        await (await queued.enqueue(0)).result()
        begun = time.perf_counter()
        handles = await queued.enqueue_many(noop.call(number) for number in range(runs))
        await asyncio.gather(*(handle.result() for handle in handles))
        return runs / (time.perf_counter() - begun)


async def _prepare(url: str, ended: int) -> int:
    """Make the tables and the queue, and about *ended* runs that are over; return how many there are."""
    app, _ = queue_app(url)
    async with app:
        await app.register_queue(QUEUE)
    async with ConnectionManager(url) as manager:
        await fill(manager, ended)
        table = "holdfast.workflow_status" if manager.dialect is DialectName.POSTGRES else "workflow_status"
        await manager.execute(f"DELETE FROM {table} WHERE status IN ('PENDING', 'ENQUEUED', 'DELAYED')")
        await analyse(manager)
        (found,) = await manager.fetch(f"SELECT count(*) AS n FROM {table}")
    return int(found["n"])


async def _churn(url: str, runs: int) -> None:
    """Enqueue, claim and end *runs*, each in a commit of its own, so that the table has all their versions."""
    connection = await asyncpg.connect(url)
    await connection.execute(_ENQUEUED, QUEUE, runs)
    await connection.execute(_CLAIMED)
    await connection.execute(_ENDED)
    await _vacuum(connection)
    await connection.close()


async def _vacuum(connection: asyncpg.Connection) -> None:
    """Do now what autovacuum would do some time later, in the middle of a measurement."""
    await connection.execute("VACUUM ANALYZE holdfast.workflow_status")


@asynccontextmanager
async def _snapshot(url: str) -> AsyncIterator[None]:
    """Hold a snapshot of the database."""
    holder = await asyncpg.connect(url)
    transaction = holder.transaction(isolation="repeatable_read", readonly=True)
    await transaction.start()
    await holder.fetchval("SELECT count(*) FROM holdfast.workflow_status")
    try:
        yield
    finally:
        await transaction.rollback()
        await holder.close()


async def _beside(name: str, title: str, plain: str, other: str, given: argparse.Namespace) -> tuple[object, ...]:
    """Return the row that compares two databases, measured in turn."""
    rates: dict[str, list[float]] = {plain: [], other: []}
    for number in range(given.rounds):
        for url in (plain, other) if number % 2 else (other, plain):  # so that neither is always the first
            rates[url].append(await _rate(url, given.runs))
    without, having = rates.values()
    ratio = statistics.median(having) / statistics.median(without)
    return name, title, _spread(without), _spread(having), f"{ratio:.0%}", load()


def _spread(rates: list[float]) -> str:
    return f"{statistics.median(rates):,.0f} ({min(rates):,.0f}-{max(rates):,.0f})"


async def _held(free: str, held: str, given: argparse.Namespace) -> tuple[object, ...]:
    """Compare two databases with the same past, one of which has a snapshot from before it."""
    await _prepare(free, 0)
    await _prepare(held, 0)
    async with _snapshot(held):
        await _churn(free, given.churn)
        await _churn(held, given.churn)
        return await _beside("postgres", f"snapshot, {given.churn:,} runs old", free, held, given)


async def _full(name: str, plain: str, full: str, given: argparse.Namespace) -> tuple[object, ...]:
    await _prepare(plain, 0)
    ended = await _prepare(full, given.ended)
    if name == "postgres":
        connection = await asyncpg.connect(full)
        await _vacuum(connection)
        await connection.close()
    return await _beside(name, f"{ended:,} ended runs", plain, full, given)


def main() -> None:
    options = Options(__doc__, databases=("postgres", "sqlite"))
    options.number("runs", 5_000, "runs of the queue that is measured")
    options.number("rounds", 6, "rounds in turn, whose median counts")
    options.number("ended", 1_000_000, "runs in the full tables")
    options.number("churn", 90_000, "runs since the snapshot on PostgreSQL")
    given = options.parse_args()
    rows = []
    with makers(*given.databases) as made:
        for name, make in made.items():
            if name == "postgres":
                rows.append(asyncio.run(_held(make(), make(), given)))
            rows.append(asyncio.run(_full(name, make(), make(), given)))
    columns = ["database", "with", "runs/s without", "runs/s with", "ratio", "load"]
    print_table(f"A queue of {given.runs:,} runs, enqueue to all done", columns, rows)


if __name__ == "__main__":
    main()
