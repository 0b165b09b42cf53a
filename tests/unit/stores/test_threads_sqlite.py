"""Conversation threads in a SQLite file, written and read by the thread that asks."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint

from holdfast.db import ConnectionManager
from holdfast.db.url import DialectName
from holdfast.errors import NotInitialized
from holdfast.integrations.langgraph import HoldfastSaver
from holdfast.integrations.langgraph_stored import Stored
from holdfast.stores.threads import LargeValue, Place, Saved, Span, SQLThreads, Write, thread_queries
from holdfast.stores.threads.facts import checkpoint_puts, checkpoint_rows
from holdfast.stores.threads.sqlite_reader import Seen, SqliteReader
from holdfast.stores.threads.sqlite_writer import SqliteWriter

if TYPE_CHECKING:
    from collections.abc import Mapping
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
        assert writer.write(kind, checkpoint_rows(SAVED._replace(place=Place("\udc80", "", "2")), [])) == []
    assert writer.write(kind, row) == []


def test_writer_keeps_the_log_short(url: str, tmp_path: Path) -> None:
    kind = checkpoint_puts(QUERIES)
    with closing(SqliteWriter(ConnectionManager(url).settings)) as writer:
        for number in range(100):
            saved = Saved(Place("t", "", f"{number:03}"), None, None, "f", bytes(200_000), "{}", {})
            assert writer.write(kind, checkpoint_rows(saved, [])) == [True]
        assert (tmp_path / "threads.db-wal").stat().st_size < 100 * 200_000 / 2
        with closing(SqliteReader(ConnectionManager(url).settings, QUERIES)) as reader:
            assert len(reader.whole_page(Span("t"), None, 200)) == 101


def test_page_comes_without_long_data_which_is_read_when_it_is_wanted(url: str, tmp_path: Path) -> None:
    long = SAVED._replace(place=Place("t", "", "2"), data=bytes(5000), large={})
    with closing(SqliteWriter(ConnectionManager(url).settings)) as writer:
        assert writer.write(checkpoint_puts(QUERIES), checkpoint_rows(long, [])) == [True]
    with closing(SqliteReader(ConnectionManager(url).settings, QUERIES)) as reader:
        newer, older = reader.page(Span("t"), None, 10)
        assert isinstance(newer, Seen)
        assert (newer.lacks_data, newer.saved.data) == (True, b"")
        assert older.saved.data == b"data"
        found = reader.filled(newer)
        assert found is not None
        assert (found.saved.data, found.writes) == (long.data, ())
        assert reader.find("t", "", "2") == found
        with closing(sqlite3.connect(tmp_path / "threads.db")) as other, other:
            other.execute("DELETE FROM holdfast_thread_checkpoints WHERE checkpoint_id = '2'")
        assert reader.filled(newer) is None


def test_pages_of_all_threads_come_newest_first_and_none_twice(url: str) -> None:
    kind = checkpoint_puts(QUERIES)
    wanted = [Place("b", "", "3"), Place("a", "", "2"), Place("a", "ns", "2"), Place("b", "", "2"), Place("t", "", "1")]
    with closing(SqliteWriter(ConnectionManager(url).settings)) as writer:
        for place in wanted[:-1]:
            assert writer.write(kind, checkpoint_rows(SAVED._replace(place=place, large={}), [])) == [True]
    with closing(SqliteReader(ConnectionManager(url).settings, QUERIES)) as reader:
        found: list[Place] = []
        while page := reader.whole_page(Span(), found[-1] if found else None, 2):
            found += [each.saved.place for each in page]
        assert found == wanted
        assert [each.saved.place for each in reader.page(Span(before="3"), None, 10)] == wanted[1:]
        assert [each.saved.place for each in reader.page(Span(checkpoint_id="2"), None, 10)] == wanted[1:4]


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
    assert stored.beside(PLACE, "a")
    assert not stored.beside(PLACE, "b")


def test_value_is_kept_beside_once_it_is_known_to_stay(tmp_path: Path) -> None:
    at: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}

    def put(saver: HoldfastSaver, version: str, changed: Mapping[str, str]) -> None:
        checkpoint: Any = empty_checkpoint()
        checkpoint["channel_values"] = {"text": version * 3000}
        checkpoint["channel_versions"] = {"text": version}
        saver.put(at, checkpoint, {"source": "loop"}, dict(changed))

    def beside() -> list[str]:
        with closing(sqlite3.connect(tmp_path / "agents.db")) as other:
            rows = other.execute("SELECT version FROM holdfast_thread_values ORDER BY version").fetchall()
        return [version for (version,) in rows]

    with HoldfastSaver.from_url(f"sqlite:///{tmp_path}/agents.db") as saver:
        put(saver, "1", {"text": "1"})
        put(saver, "2", {"text": "2"})
        assert beside() == []
        put(saver, "2", {})
        put(saver, "2", {})
        assert beside() == ["2"]
        put(saver, "3", {"text": "3"})
        assert beside() == ["2", "3"]
        texts = [each.checkpoint["channel_values"]["text"] for each in saver.list(at)]
    assert texts == [version * 3000 for version in ("3", "2", "2", "2", "1")]
