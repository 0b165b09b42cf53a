"""SQLite among other processes and on a disk that is not endless."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from holdfast.db import ConnectionManager, Pipeline, SyncConnectionManager
from holdfast.db.blocking.glances import until
from holdfast.db.settings import LARGE_PAGES
from holdfast.db.sqlite.checkpoint import KEPT_BYTES, Checkpointer
from holdfast.errors import NotInitialized, PipelineClosed, Retryable
from holdfast.integrations.langgraph import HoldfastSaver
from holdfast.stores import SQLiteCheckpointBackend
from holdfast.testing.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

_MEGABYTE = 1024 * 1024


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "db.sqlite"


@pytest.fixture
def stranger(path: Path) -> Iterator[sqlite3.Connection]:
    """Another program's connection to the file."""
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as connection:
        yield connection


def wal(path: Path) -> int:
    log = path.with_name(path.name + "-wal")
    return log.stat().st_size if log.exists() else 0


def test_writes_wait_while_another_program_holds_the_lock(path: Path, stranger: sqlite3.Connection) -> None:
    async def scene() -> None:
        async with ConnectionManager(path) as manager:
            ledger = Ledger(manager.dialect)
            await ledger.create(manager)
            async with Pipeline(manager) as pipeline:
                stranger.execute("BEGIN IMMEDIATE")
                stranger.execute("INSERT INTO holdfast_ledger VALUES ('stranger', '', 0)")
                write = asyncio.create_task(pipeline.write(ledger, ("pipeline", "", 0)))
                plain = asyncio.create_task(manager.execute("INSERT INTO holdfast_ledger VALUES ('plain', '', 0)"))
                reads = [await manager.fetch("SELECT entry_key FROM holdfast_ledger") for _ in range(20)]
                assert reads == [[]] * 20
                assert not write.done()
                assert not plain.done()
                stranger.execute("COMMIT")
                await asyncio.gather(write, plain)
            keys = [row["entry_key"] for row in await ledger.entries(manager)]
            assert keys == ["pipeline", "plain", "stranger"]

    asyncio.run(scene())


def test_lock_held_too_long_asks_to_try_again(path: Path, stranger: sqlite3.Connection) -> None:
    async def scene() -> None:
        async with ConnectionManager(path, busy_timeout=0.01) as manager:
            await manager.execute("CREATE TABLE t (x INTEGER)")
            stranger.execute("BEGIN IMMEDIATE")
            with pytest.raises(Retryable, match=r"locked by another connection, of .* or of this one, for 0\.01 s"):
                await manager.execute("INSERT INTO t VALUES (1)")
            stranger.execute("ROLLBACK")
            assert await manager.execute("INSERT INTO t VALUES (1)") == 1

    asyncio.run(scene())


def test_pipeline_outwaits_a_lock_longer_than_the_busy_timeout(path: Path, stranger: sqlite3.Connection) -> None:
    async def scene() -> None:
        async with ConnectionManager(path, busy_timeout=0.01) as manager:
            ledger = Ledger(manager.dialect)
            await ledger.create(manager)
            async with Pipeline(manager) as pipeline:
                stranger.execute("BEGIN IMMEDIATE")
                write = asyncio.create_task(pipeline.write(ledger, ("k", "", 0)))
                await until(lambda: pipeline.oldest_age() > 0.1)  # ten times the busy timeout
                assert not write.done()
                stranger.execute("COMMIT")
                assert await write == "k"

    asyncio.run(scene())


def test_call_waits_for_a_lock_for_the_busy_timeout_and_no_longer(path: Path, stranger: sqlite3.Connection) -> None:
    async def scene() -> None:
        async with ConnectionManager(path, busy_timeout=0.5) as manager:
            await manager.execute("CREATE TABLE t (a INTEGER)")
            stranger.execute("BEGIN IMMEDIATE")
            writing: list[Callable[[], Awaitable[int]]] = [
                lambda: manager.execute("INSERT INTO t VALUES (1)"),
                lambda: manager.run(lambda transaction: transaction.execute("INSERT INTO t VALUES (1)")),
            ]
            for write in writing:
                async with asyncio.timeout(2.5):  # eight times so long would be four seconds
                    with pytest.raises(Retryable, match=r"locked.* for 0.5 s"):
                        await write()

    asyncio.run(scene())


@pytest.mark.parametrize("on_thread", [False, True])
def test_pipeline_that_is_closed_waits_for_a_lock_no_longer_than_it_was_told(
    path: Path, stranger: sqlite3.Connection, *, on_thread: bool
) -> None:
    async def scene() -> None:
        async with ConnectionManager(path) as manager:
            ledger = Ledger(manager.dialect)
            await ledger.create(manager)
            pipeline = Pipeline(manager)
            await pipeline.open()
            stranger.execute("BEGIN IMMEDIATE")
            row = ("k", "", 0)
            write = (
                asyncio.to_thread(pipeline.write_blocking, ledger, row) if on_thread else pipeline.write(ledger, row)
            )
            writing = asyncio.ensure_future(write)
            await until(lambda: pipeline.oldest_age() > 0)
            async with asyncio.timeout(15):  # half of the busy timeout
                await pipeline.close(timeout=0.1)
                with pytest.raises(PipelineClosed):
                    await writing
            stranger.execute("ROLLBACK")
            assert await manager.fetch("SELECT * FROM holdfast_ledger") == []
            await manager.execute("INSERT INTO holdfast_ledger VALUES ('others', '', 0)")

    asyncio.run(scene())


def test_manager_that_is_closed_gives_all_that_waits_for_a_lock_one_busy_timeout(
    path: Path, stranger: sqlite3.Connection
) -> None:
    async def scene() -> None:
        manager = ConnectionManager(path, busy_timeout=1)
        await manager.initialize()
        await manager.execute("CREATE TABLE t (a INTEGER)")
        stranger.execute("BEGIN IMMEDIATE")
        writes = [asyncio.ensure_future(manager.execute("INSERT INTO t VALUES (1)")) for _ in range(20)]
        await asyncio.sleep(0)
        async with asyncio.timeout(10):  # one after the other they would take 20 s
            await manager.close()
        outcomes = await asyncio.gather(*writes, return_exceptions=True)
        assert {type(each) for each in outcomes} <= {Retryable, NotInitialized}

    asyncio.run(scene())


@pytest.mark.parametrize(("writes", "size"), [(50, _MEGABYTE), (5, 10 * _MEGABYTE), (2500, 20_000)])
@pytest.mark.parametrize("reading", [False, True])
def test_log_stays_short_under_continuous_writing(path: Path, writes: int, size: int, reading: bool) -> None:
    async def scene() -> int:
        async with ConnectionManager(path, synchronous="OFF") as manager:
            await manager.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, v BLOB)")
            done = False
            longest = 0

            async def read() -> None:
                while not done:
                    await manager.fetch("SELECT COUNT(*) AS n, MAX(n) AS m FROM t")

            readers = [asyncio.create_task(read()) for _ in range(3 if reading else 0)]
            for number in range(writes):
                await manager.execute("INSERT INTO t VALUES (?, ?)", number, b"x" * size)
                longest = max(longest, wal(path))
            done = True
            await asyncio.gather(*readers)
            return longest

    # Fifty megabytes are written. A reader that a busy machine holds up puts the new beginning off by some megabytes.
    assert asyncio.run(scene()) < 32 * _MEGABYTE


def test_log_that_begins_anew_keeps_its_file_and_is_moved_only_when_it_is_long_again(path: Path) -> None:
    sizes: set[int] = set()
    moved: list[int] = []
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        for setting in ("journal_mode = WAL", "synchronous = OFF", "wal_autocheckpoint = 0"):
            raw.execute(f"PRAGMA {setting}").fetchall()
        raw.execute(f"PRAGMA journal_size_limit = {KEPT_BYTES}").fetchall()
        raw.execute("CREATE TABLE t (v BLOB)")
        checkpointer = Checkpointer(str(path))
        written: list[str] = []
        raw.set_trace_callback(written.append)
        for number in range(1500):
            raw.execute("INSERT INTO t VALUES (?)", (bytes(8000),))
            checkpointer.after_commit(raw)
            if "wal_checkpoint" in " ".join(written):
                moved.append(number)
            if moved:
                sizes.add(wal(path))
            written.clear()
        checkpointer.close()
    # A row takes four pages of 4 KiB, so that the log is long after some 250 rows.
    assert len(moved) > 2
    assert min(b - a for a, b in pairwise(moved)) > 200
    assert len(sizes) == 1
    assert sizes.pop() > 4 * _MEGABYTE


def test_log_held_by_a_reader_is_emptied_when_it_leaves(path: Path, stranger: sqlite3.Connection) -> None:
    async def scene() -> None:
        async with ConnectionManager(path, synchronous="OFF") as manager:
            await manager.execute("CREATE TABLE t (v BLOB)")
            stranger.execute("BEGIN")
            stranger.execute("SELECT COUNT(*) FROM t").fetchall()
            for _ in range(20):
                await manager.execute("INSERT INTO t VALUES (?)", b"x" * _MEGABYTE)
            assert wal(path) > 16 * _MEGABYTE  # the reader's moment is kept for it
            stranger.execute("ROLLBACK")
            for _ in range(10):
                await manager.execute("INSERT INTO t VALUES (?)", b"x" * _MEGABYTE)
            assert wal(path) < 16 * _MEGABYTE

    asyncio.run(scene())


def test_nobody_whose_commit_is_done_waits_for_the_log_to_be_moved(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = threading.Event()
    waited_for: list[bool] = []  # whether all were told, of each time the log was looked at
    move = Checkpointer.after_commit

    def when_all_are_told(checkpointer: Checkpointer, connection: sqlite3.Connection) -> None:
        waited_for.append(told.wait(30))
        move(checkpointer, connection)

    async def scene() -> None:
        async with ConnectionManager(path) as manager:
            ledger = Ledger(manager.dialect)
            await ledger.create(manager)
        async with ConnectionManager(path) as manager, Pipeline(manager) as pipeline:
            monkeypatch.setattr(Checkpointer, "after_commit", when_all_are_told)
            await pipeline.write(ledger, ("a", "note", 1))
            told.set()

    asyncio.run(scene())
    assert waited_for
    assert all(waited_for)


def test_threads_end_with_the_manager(path: Path) -> None:
    async def scene() -> None:
        async with ConnectionManager(path) as manager:
            await manager.fetch("SELECT 1 AS one")
            assert len(working()) == 4
        assert working() == []

    def working() -> list[str]:
        return [thread.name for thread in threading.enumerate() if thread.name.startswith("holdfast-sqlite")]

    asyncio.run(scene())


FULL_DISK = """
import asyncio, resource, sys
from holdfast.db import ConnectionManager
from holdfast.errors import DatabaseError

async def main(path):
    async with ConnectionManager(path) as manager:
        await manager.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, v BLOB)")
        await manager.execute("INSERT INTO t VALUES (0, ?)", b"kept")
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, 2_000_000))
        written = 0
        for way in ("execute", "transaction"):
            try:
                for n in range(1, 100):
                    if way == "execute":
                        await manager.execute("INSERT INTO t (v) VALUES (?)", b"x" * 100_000)
                    else:
                        async with manager.transaction() as transaction:
                            await transaction.execute("INSERT INTO t (v) VALUES (?)", b"x" * 100_000)
                    written += 1
            except DatabaseError as error:
                print(type(error).__name__, "|", error)
        rows = await manager.fetch("SELECT COUNT(*) AS n FROM t")
        assert rows[0]["n"] in (written + 1, written + 2), (rows, written)
        print("rows", written)

asyncio.run(main(sys.argv[1]))
"""


def test_full_disk_is_told_and_harms_nothing(path: Path) -> None:
    command = [sys.executable, "-c", FULL_DISK, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    first, second, last = done.stdout.splitlines()
    assert "disk" in first
    assert "disk" in second
    written = int(last.split()[1])
    assert written > 0

    async def look() -> None:
        async with ConnectionManager(path) as manager:
            assert await manager.fetch("PRAGMA integrity_check") == [{"integrity_check": "ok"}]
            [row] = await manager.fetch("SELECT COUNT(*) AS n FROM t")
            assert row["n"] in {written + 1, written + 2}
            assert await manager.fetch("SELECT v FROM t WHERE n = 0") == [{"v": b"kept"}]
            await manager.execute("INSERT INTO t (v) VALUES (?)", b"x" * 100_000)

    asyncio.run(look())


@pytest.mark.parametrize("how", ["deleted", "moved", "replaced"])
def test_file_that_is_gone_is_not_written_to_and_one_that_is_put_back_is(
    path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    kept = path.with_name("kept")

    def take_away() -> None:
        kept.hardlink_to(path)
        path.rename(path.with_name("elsewhere")) if how == "moved" else path.unlink()
        if how == "replaced":
            path.touch()

    async def scene() -> None:
        async with ConnectionManager(path) as manager, Pipeline(manager) as pipeline:
            ledger = Ledger(manager.dialect)
            await ledger.create(manager)
            async with manager.transaction() as transaction:
                await transaction.execute("INSERT INTO holdfast_ledger VALUES ('before', '', 0)")
            take_away()
            with pytest.raises(Retryable, match="was deleted, moved or replaced"):
                await manager.execute("INSERT INTO holdfast_ledger VALUES ('alone', '', 0)")
            with pytest.raises(Retryable, match="Put it back, or end this process"):
                async with manager.transaction() as transaction:
                    await transaction.execute("INSERT INTO holdfast_ledger VALUES ('together', '', 0)")
            write = asyncio.create_task(pipeline.write(ledger, ("during", "", 0)))
            await until(lambda: "durable writes is tried again: The SQLite file" in caplog.text)
            assert not write.done()
            kept.replace(path)
            await write
            await manager.execute("INSERT INTO holdfast_ledger VALUES ('after', '', 0)")

    asyncio.run(scene())
    with closing(sqlite3.connect(path)) as looked:
        found = looked.execute("SELECT entry_key FROM holdfast_ledger").fetchall()
    assert sorted(found) == [("after",), ("before",), ("during",)]


def _page_bytes(path: Path) -> int:
    with closing(sqlite3.connect(path)) as raw:
        [[found]] = raw.execute("PRAGMA page_size").fetchall()
    return int(found)


def test_files_made_for_checkpoints_have_pages_to_fit_and_a_file_that_is_there_keeps_its_own(tmp_path: Path) -> None:
    with HoldfastSaver.from_url(tmp_path / "saver.db") as saver:
        assert saver.get_tuple({"configurable": {"thread_id": "t"}}) is None
    with SQLiteCheckpointBackend(tmp_path / "flow.db") as backend:
        assert backend.get_latest("f") is None
    assert [_page_bytes(tmp_path / name) for name in ("saver.db", "flow.db")] == [LARGE_PAGES, LARGE_PAGES]

    with SyncConnectionManager(tmp_path / "app.db") as manager:
        manager.execute("CREATE TABLE small (id INTEGER)")
    with HoldfastSaver.from_url(tmp_path / "app.db") as saver:
        assert saver.get_tuple({"configurable": {"thread_id": "t"}}) is None
    assert _page_bytes(tmp_path / "app.db") == 4096
