"""The plans of the event log and the execution store: an index leads to the page, whatever the size of the table."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.db import ConnectionManager
from holdfast.stores import DBEventStoreBackend, DBExecutionStore
from holdfast.stores.events.queries import event_queries
from holdfast.stores.executions.queries import execution_queries

if TYPE_CHECKING:
    from collections.abc import Callable

EXPLAIN = {"sqlite": "EXPLAIN QUERY PLAN", "postgres": "EXPLAIN", "mariadb": "EXPLAIN"}
NUMBERED = "uq_holdfast_events_sequence|sqlite_autoindex_holdfast_events_1"
STREAM = f"{NUMBERED}|idx_holdfast_events_stream"

# A query, its parameters, and the indexes of which one must lead to what is wanted.
EVENTS: list[tuple[str, dict[str, Any], str]] = [
    ("events_after", {"stream_key": "big", "after_sequence": 100, "most": 10}, NUMBERED),
    ("events_after", {"stream_key": "big", "after_sequence": 5_900, "most": None}, NUMBERED),
    ("events_count", {"stream_key": "s1"}, STREAM),
    ("stream_keys", {"after_key": None, "most": 10}, STREAM),
]
EXECUTIONS: list[tuple[str, dict[str, Any], str]] = [
    ("executions_list", {"status": "failed", "workflow_id": None, "after": None, "most": 10}, "idx_executions_status"),
    ("executions_list", {"status": None, "workflow_id": "w", "after": None, "most": 10}, "idx_executions_workflow"),
]


async def fill(manager: ConnectionManager, kind: str) -> None:
    events, executions = DBEventStoreBackend(manager), DBExecutionStore(manager)
    for _ in range(6):
        await events.append("big", [{"type": "e"}] * 1_000)
    await asyncio.gather(*(events.append(f"s{n}", [{"type": "e"}]) for n in range(500)))
    await asyncio.gather(*(executions.record_start(f"r{n}", workflow_id=f"w{n % 50}") for n in range(3_000)))
    await asyncio.gather(*(executions.record_completion(f"r{n}") for n in range(2_900)))
    await events.close()
    await executions.close()
    schema = "holdfast." if kind == "postgres" else ""
    verb = "ANALYZE TABLE" if kind == "mariadb" else "ANALYZE"
    for table in ("holdfast_events", "holdfast_event_streams", "holdfast_executions"):
        await manager.fetch(f"{verb} {schema}{table}")


async def check(manager: ConnectionManager, kind: str, when: str) -> None:
    for queries, wanted in (
        (event_queries(manager.dialect, "holdfast"), EVENTS),
        (execution_queries(manager.dialect, "holdfast"), EXECUTIONS),
    ):
        for name, values, indexes in wanted:
            [(text, arguments)] = queries[name].bind(values)
            rows = await manager.backend().fetch(f"{EXPLAIN[kind]} {text}", arguments)
            plan = "\n".join(str(row.get("detail", row.get("key", row))) for row in rows)
            assert any(index in plan for index in indexes.split("|")), f"{when}, {name} {values}:\n{plan}"


@pytest.mark.parametrize("kind", list(EXPLAIN))
def test_pages_are_led_to_by_an_index(kind: str, fresh_database: Callable[[str], str]) -> None:
    async def scene() -> None:
        async with ConnectionManager(fresh_database(kind)) as manager:
            await DBEventStoreBackend(manager).initialize()
            await check(manager, kind, "empty")
            await fill(manager, kind)
            await check(manager, kind, "full")

    asyncio.run(scene())
