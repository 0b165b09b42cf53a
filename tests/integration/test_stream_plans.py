"""What it costs SQLite to read a chunk of a stream, counted in instructions: the same wherever in the stream it is."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

from holdfast import Holdfast
from holdfast.db import DialectName
from holdfast.workflows.streams import stream_queries

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.db.queries.text import Statement

ENTRIES = 10_000
A_CHUNK = 100


def instructions(connection: sqlite3.Connection, statement: Statement, values: dict[str, Any]) -> int:
    """Return how many instructions of SQLite's machine a statement takes."""
    count = 0

    def step() -> int:
        nonlocal count
        count += 1
        return 0

    connection.set_progress_handler(step, 1)
    connection.execute(statement.text, [values[name.removeprefix("rows.")] for name in statement.order]).fetchall()
    connection.set_progress_handler(None, 1)
    return count


def test_chunk_of_a_stream_costs_the_same_wherever_it_is(fresh_database: Callable[[str], str]) -> None:
    url = fresh_database("sqlite")
    app = Holdfast(url)

    @app.workflow
    def begin() -> None:
        app.write_stream("long", 1)

    with app:
        run = begin.start()
        run.result(timeout=60)
    queries = stream_queries(DialectName.SQLITE, None)
    [chunk], [stand] = queries["stream_chunk"].statements, queries["streams_stand"].statements
    connection = sqlite3.connect(url.removeprefix("sqlite:///"))
    connection.executemany(
        'INSERT INTO streams (workflow_uuid, "key", "offset", value, serialization, function_id) '
        "VALUES (?, 'long', ?, '1', 'portable_json', 0)",
        ((run.workflow_id, number) for number in range(1, ENTRIES)),
    )
    costs = []
    for low in (0, 0, ENTRIES // 2, ENTRIES - A_CHUNK):
        asked = {"n": 0, "id": run.workflow_id, "stream": "long", "low": low, "high": low + A_CHUNK - 1, "closed": "x"}
        costs.append([instructions(connection, each, asked) for each in (chunk, stand)])
    connection.close()
    first, *further = costs[1:]  # the very first reads the tables' definitions
    assert all(abs(cost - now) < A_CHUNK // 10 for each in further for cost, now in zip(first, each, strict=True))
