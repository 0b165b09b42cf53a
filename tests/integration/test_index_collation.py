"""Text in the indexes of PostgreSQL is compared byte by byte, and so in the same way in every table.

An index is of no use to a join with a column that is compared in another way: each row that is joined would be a walk
through the whole table.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from holdfast.db import ConnectionManager
from holdfast.stores import DBExecutionStore

if TYPE_CHECKING:
    from collections.abc import Callable

_COMPARED_OTHERWISE = """
    SELECT t.relname || '.' || a.attname AS place
    FROM pg_index AS i
    JOIN pg_class AS t ON t.oid = i.indrelid
    JOIN pg_namespace AS s ON s.oid = t.relnamespace AND s.nspname = 'holdfast'
    JOIN unnest(i.indcollation, i.indkey) AS k(collation_id, number) ON k.collation_id <> 0
    JOIN pg_collation AS c ON c.oid = k.collation_id AND c.collname <> 'C'
    JOIN pg_attribute AS a ON a.attrelid = t.oid AND a.attnum = k.number
    ORDER BY place
"""
_DELETE_STREAMS = """
    EXPLAIN DELETE FROM holdfast.streams AS s USING holdfast.workflow_status AS gone
    WHERE s.workflow_uuid = gone.workflow_uuid AND gone.workflow_uuid = 'w5'
"""
_STREAMS = """
    INSERT INTO holdfast.streams (workflow_uuid, "key", value, "offset", function_id)
    SELECT 'w' || n, 'k', 'v', 0, 1 FROM generate_series(1, 20000) AS n
"""


async def _places(url: str) -> list[str]:
    async with ConnectionManager(url) as manager:
        await DBExecutionStore(manager).initialize()
        return [row["place"] for row in await manager.fetch(_COMPARED_OTHERWISE)]


def test_text_in_indexes_is_compared_byte_by_byte(fresh_database: Callable[[str], str]) -> None:
    assert asyncio.run(_places(fresh_database("postgres"))) == []


async def _plan(url: str) -> str:
    async with ConnectionManager(url) as manager:
        await DBExecutionStore(manager).initialize()
        await manager.execute(_STREAMS)
        await manager.execute("ANALYZE holdfast.streams")
        return "\n".join(row["QUERY PLAN"] for row in await manager.fetch(_DELETE_STREAMS))


def test_streams_of_a_deleted_run_are_found_by_their_key(fresh_database: Callable[[str], str]) -> None:
    assert "using streams_pkey on streams" in asyncio.run(_plan(fresh_database("postgres")))
