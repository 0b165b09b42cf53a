"""Conversation threads in a SQLite file, written and read by the thread that asks."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from holdfast.db import ConnectionManager
from holdfast.db.url import DialectName
from holdfast.errors import NotInitialized
from holdfast.integrations.langgraph_stored import Stored
from holdfast.stores.threads import LargeValue, Place, Saved, Span, SQLThreads, Write, thread_queries
from holdfast.stores.threads.facts import checkpoint_puts, checkpoint_rows
from holdfast.stores.threads.sqlite_reader import SqliteReader
from holdfast.stores.threads.sqlite_writer import SqliteWriter

if TYPE_CHECKING:
    from pathlib import Path

QUERIES = thread_queries(DialectName.SQLITE, None)
PLACE = Place("t", "", "1")
SAVED = Saved(PLACE, None, None, "f", b"data", "{}", {"a": "v1"})
VALUE = LargeValue("a", "v1", "f", b"large")


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A file with the tables and one checkpoint, which has a large value and a write."""
    url = f"sqlite:///{tmp_path}/threads.db"

    async def make() -> None:
        threads = SQLThreads(ConnectionManager(url))
        await threads.initialize()
        await threads.put(SAVED, [VALUE])
        await threads.put_writes(PLACE, [Write("task", 0, "a", "f", b"written", "")])
        await threads.close()

    asyncio.run(make())
    return url


def test_writer_leaves_to_the_pipeline_what_it_cannot_write_at_once(url: str, tmp_path: Path) -> None:
    settings = replace(ConnectionManager(url).settings, busy_timeout=0.01)
    kind = checkpoint_puts(QUERIES)
    row = checkpoint_rows(SAVED._replace(place=Place("t", "", "2")), [])
    with closing(SqliteWriter(settings)) as writer:
        with closing(sqlite3.connect(tmp_path / "threads.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            assert writer.write(kind, row) == []
            assert writer.write(kind, (*row, *row)) == []
        assert writer.write(kind, row) == [True]
    assert writer.write(kind, row) == []


def test_reader_reads_again_what_was_deleted_while_it_was_read(url: str, tmp_path: Path) -> None:
    with closing(SqliteReader(ConnectionManager(url).settings, QUERIES)) as reader:
        [seen] = reader.page(Span("t"), None, 10)
        found = reader.filled(seen)
        assert found is not None
        assert (found.values, [write.data for write in found.writes]) == ((VALUE,), [b"written"])
        with closing(sqlite3.connect(tmp_path / "threads.db")) as other, other:
            for table in ("checkpoints", "values", "writes"):
                other.execute(f"DELETE FROM holdfast_thread_{table}")
        assert reader.filled(seen) is None
        assert reader.whole_page(Span("t"), None, 10) == []
    with pytest.raises(NotInitialized):
        reader.find("t", "", None)


def test_checkpoint_with_a_value_that_is_gone_is_not_stored(url: str) -> None:
    later = SAVED._replace(place=Place("t", "", "2"), large={"a": "v1", "b": "v7"})

    async def scene() -> None:
        threads = SQLThreads(ConnectionManager(url))
        await threads.initialize()
        assert await threads.put(later, []) is False
        assert await asyncio.to_thread(threads.put_blocking, later, []) is False
        assert await threads.find("t", "", "2") is None
        assert await asyncio.to_thread(threads.put_blocking, later, [LargeValue("b", "v7", "f", b"more")]) is True
        found = await threads.find("t", "", "2")
        assert found is not None
        assert {value.data for value in found.values} == {b"large", b"more"}
        await threads.close()

    asyncio.run(scene())


def test_saver_forgets_what_it_has_stored_when_that_is_too_much() -> None:
    stored = Stored(most=2)
    for version in ("v1", "v2", "v3"):
        stored.add(PLACE, [VALUE._replace(version=version)])
    assert [stored.has(PLACE, "a", version) for version in ("v1", "v2", "v3")] == [False, False, True]
    assert not stored.has(PLACE._replace(thread_id="other"), "a", "v3")
