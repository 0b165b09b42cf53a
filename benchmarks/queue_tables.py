"""Throughput of a queue when the tables are full of ended runs, and when a snapshot on PostgreSQL is held open.

Promised: with 1,000,000 ended runs, and with a snapshot that is five minutes old, it falls by less than 20 %.

A snapshot does harm by what is written while it is open: of every run that was enqueued, claimed and ended since, the
old versions must stay, in the table and at the head of the index that claims follow. Its age alone does nothing. So
instead of five minutes of work, ``--churn`` runs are enqueued, claimed and ended by statements on the table after the
snapshot was taken, by default as many as 300 a second are in five minutes. Then the queue is measured while it is still
open.

Each measurement is taken in turn with one of a database that has neither; one process enqueues and works.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg
from yard.machine import load
from yard.many_runs import analyse, fill
from yard.queue_app import QUEUE, queue_app
from yard.table import print_table

from holdfast.db import ConnectionManager, DialectName
from holdfast.testing.servers import PostgresServer

if TYPE_CHECKING:
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


@asynccontextmanager
async def _snapshot(url: str, churn: int) -> AsyncIterator[None]:
    """Hold a snapshot that is older than *churn* runs, each enqueued, claimed and ended."""
    holder, writer = await asyncpg.connect(url), await asyncpg.connect(url)
    transaction = holder.transaction(isolation="repeatable_read", readonly=True)
    await transaction.start()
    await holder.fetchval("SELECT count(*) FROM holdfast.workflow_status")
    await writer.execute(_ENQUEUED, QUEUE, churn)
    await writer.execute(_CLAIMED)
    await writer.execute(_ENDED)
    await writer.close()
    try:
        yield
    finally:
        await transaction.rollback()
        await holder.close()


async def _beside(name: str, title: str, plain: str, other: str, options: argparse.Namespace) -> tuple[object, ...]:
    """Return the row that compares two databases, measured in turn."""
    without, having = [], []
    for _ in range(options.rounds):
        without.append(await _rate(plain, options.runs))
        having.append(await _rate(other, options.runs))
    ratio = statistics.median(having) / statistics.median(without)
    return name, title, _spread(without), _spread(having), f"{ratio:.0%}", load()


def _spread(rates: list[float]) -> str:
    return f"{statistics.median(rates):,.0f} ({min(rates):,.0f}-{max(rates):,.0f})"


async def _measure(makers: dict[str, list[str]], options: argparse.Namespace) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for name, (plain, full, *held) in makers.items():
        await _prepare(plain, 0)
        ended = await _prepare(full, options.ended)
        rows.append(await _beside(name, f"{ended:,} ended runs", plain, full, options))
        for url in held:
            await _prepare(url, 0)
            async with _snapshot(url, options.churn):
                rows.append(await _beside(name, f"snapshot, {options.churn:,} runs old", plain, url, options))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ended", type=int, default=1_000_000)
    parser.add_argument("--churn", type=int, default=90_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, PostgresServer() as server:
        makers = {
            "postgres": [server.create_database() for _ in range(3)],
            "sqlite": [f"sqlite:///{Path(folder) / name}.db" for name in ("plain", "full")],
        }
        rows = asyncio.run(_measure(makers, options))
    columns = ["database", "with", "runs/s without", "runs/s with", "ratio", "load"]
    print_table(f"A queue of {options.runs:,} runs, enqueue to all done", columns, rows)


if __name__ == "__main__":
    main()
