"""The plans of dead letters: every listing follows the index that is in its order, whatever is known of the table."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from holdfast.db import ConnectionManager, DialectName
from holdfast.db.migrations.migrator import Migrator
from holdfast.model.dead_letter import FailedOperationStatus
from holdfast.stores.dead_letters.queries import dead_letter_queries
from holdfast.stores.dead_letters.shelf import Wanted
from holdfast.stores.dead_letters.sql import _query, _values

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from holdfast.db.queries.calls import Call
    from holdfast.db.queries.queries import Queries

NOW = datetime(2030, 1, 1, tzinfo=UTC)
# What is asked for, and the index that leads to it.
LISTINGS: dict[str, Wanted] = {
    "created": Wanted(newest=True),
    "status": Wanted(status="pending"),
    "domain_status": Wanted(domain="d1", status="pending", newest=True),
    "type_status": Wanted(failure_type="t1", status="pending"),
    "all_three": Wanted(domain="d1", failure_type="t1", status="pending", newest=True),
    "next_retry": Wanted(due=True),
    "domain_next_retry": Wanted(due=True, domain="d1"),
    "expires": Wanted(expires_before=NOW),
    "resolved": Wanted(status="resolved", resolved_for=timedelta(days=30)),
    "archived": Wanted(status="archived", untouched_for=timedelta(days=90)),
}
# In any status: the index leads to the first of each status, and only those are put in order.
MERGED: dict[str, Wanted] = {
    "domain_status": Wanted(domain="d1", newest=True),
    "type_status": Wanted(failure_type="t1", newest=True),
    "all_three": Wanted(domain="d1", failure_type="t1"),
}
SIZES = ("empty", "full and never analysed", "full and analysed")


async def _fill(manager: ConnectionManager, table: str) -> None:
    numbers = "(WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 20000) SELECT i FROM c) AS n"
    name, domain, kind = ("'x' || n.i", "'d' || (n.i % 5)", "'t' || (n.i % 50)")
    if manager.dialect is DialectName.MYSQL:
        numbers = "(SELECT seq AS i FROM seq_1_to_20000) AS n"
        name, domain, kind = ("CONCAT('x', n.i)", "CONCAT('d', n.i % 5)", "CONCAT('t', n.i % 50)")
    moment = f"CAST({NOW.year} + n.i AS CHAR(40))"
    await manager.execute(
        f"INSERT INTO {table} (id, error, payload, created_at, updated_at, resolved_at, expires_at, next_retry_at, "
        f"status, domain, failure_type, change_key) SELECT {name}, '', 'null', {moment}, {moment}, "
        f"CASE WHEN n.i % 50 > 1 THEN {moment} END, CASE WHEN n.i % 50 = 2 THEN {moment} END, "
        f"CASE WHEN n.i % 50 = 0 THEN {moment} END, CASE n.i % 50 WHEN 0 THEN 'pending' WHEN 1 THEN 'archived' "
        f"ELSE 'resolved' END, {domain}, {kind}, '' FROM {numbers}"
    )


@asynccontextmanager
async def _table(url: str, size: str) -> AsyncIterator[tuple[ConnectionManager, Queries]]:
    async with ConnectionManager(url) as manager:
        await Migrator(manager).migrate()
        table = "holdfast.holdfast_dlq" if manager.dialect is DialectName.POSTGRES else "holdfast_dlq"
        if size != "empty":
            await _fill(manager, table)
        if size == "full and analysed":
            await manager.execute(f"ANALYZE {'TABLE ' if manager.dialect is DialectName.MYSQL else ''}{table}")
        yield manager, dead_letter_queries(manager.dialect, "holdfast")


async def _plans(url: str, size: str, listings: dict[str, Wanted]) -> dict[str, str]:
    async with _table(url, size) as (manager, queries):
        return {
            name: await _explain(manager, *queries[_query(wanted)].bind(_values(wanted)))
            for name, wanted in listings.items()
        }


async def _plan_of_ids(url: str, size: str) -> str:
    async with _table(url, size) as (manager, queries):
        read = queries["dlq_read"].batch([(f"x{number}",) for number in range(1, 101)])
        return await _explain(manager, *queries["dlq_planned"].bind({}), *read)


async def _explain(manager: ConnectionManager, *calls: Call) -> str:
    *before, (text, values) = calls
    explain = "EXPLAIN QUERY PLAN" if manager.dialect is DialectName.SQLITE else "EXPLAIN"
    session = await manager.backend().acquire()
    await session.begin()
    for statement, given in before:
        await session.fetch(statement, given)
    rows = await session.fetch(f"{explain} {text}", values)
    await session.rollback()
    await manager.backend().release(session)
    return "\n".join(str(row.get("detail") or row.get("QUERY PLAN") or row) for row in rows)


@pytest.mark.parametrize("size", SIZES)
def test_postgres_follows_the_index_that_is_in_the_order_of_the_listing(
    fresh_database: Callable[[str], str], size: str
) -> None:
    for name, plan in asyncio.run(_plans(fresh_database("postgres"), size, LISTINGS)).items():
        assert f"idx_holdfast_dlq_{name} " in plan or size == "empty", plan
        assert not {"Sort", "Seq Scan", "Bitmap"} & set(plan.replace("->", "").split()), plan


@pytest.mark.parametrize("size", SIZES)
def test_postgres_finds_the_records_of_some_ids_by_their_key(fresh_database: Callable[[str], str], size: str) -> None:
    plan = asyncio.run(_plan_of_ids(fresh_database("postgres"), size))
    assert "Index Cond: (id = (r.id)" in plan, plan
    assert "Join Filter" not in plan, plan
    assert "Seq Scan" not in plan, plan


@pytest.mark.parametrize("size", SIZES)
def test_sqlite_follows_the_index_that_is_in_the_order_of_the_listing(
    fresh_database: Callable[[str], str], size: str
) -> None:
    for name, plan in asyncio.run(_plans(fresh_database("sqlite"), size, LISTINGS)).items():
        assert f"idx_holdfast_dlq_{name}" in plan, plan
        assert "TEMP B-TREE" not in plan, plan


@pytest.mark.parametrize("size", SIZES[1:])
def test_mariadb_follows_the_index_that_is_in_the_order_of_the_listing(
    fresh_database: Callable[[str], str], size: str
) -> None:
    for name, plan in asyncio.run(_plans(fresh_database("mariadb"), size, LISTINGS)).items():
        assert f"idx_holdfast_dlq_{name}'" in plan, plan
        assert "filesort" not in plan, plan


@pytest.mark.parametrize("size", SIZES)
def test_postgres_merges_what_the_index_has_of_each_status(fresh_database: Callable[[str], str], size: str) -> None:
    for name, plan in asyncio.run(_plans(fresh_database("postgres"), size, MERGED)).items():
        assert plan.count(f"idx_holdfast_dlq_{name} ") == len(FailedOperationStatus), plan
        assert plan.count("Index") - plan.count("Index Cond") == len(FailedOperationStatus) + 1, plan


@pytest.mark.parametrize("size", SIZES)
def test_sqlite_merges_what_the_index_has_of_each_status(fresh_database: Callable[[str], str], size: str) -> None:
    for name, plan in asyncio.run(_plans(fresh_database("sqlite"), size, MERGED)).items():
        assert plan.count(f"COVERING INDEX idx_holdfast_dlq_{name} ") == len(FailedOperationStatus), plan
        assert plan.count("INDEX") == len(FailedOperationStatus) + 1, plan


@pytest.mark.parametrize("size", SIZES[1:])
def test_mariadb_merges_what_the_index_has_of_each_status(fresh_database: Callable[[str], str], size: str) -> None:
    for name, plan in asyncio.run(_plans(fresh_database("mariadb"), size, MERGED)).items():
        assert plan.count(f"'key': 'idx_holdfast_dlq_{name}'") == len(FailedOperationStatus), plan
        assert plan.count("'key': 'PRIMARY'") == 1, plan


@pytest.mark.parametrize("dialect", list(DialectName))
def test_a_listing_in_any_status_names_every_status(dialect: DialectName) -> None:
    text = dead_letter_queries(dialect, "holdfast")["dlq_merged"].statements[-1].text
    assert all(f"d.status = '{status}'" in text for status in FailedOperationStatus)
