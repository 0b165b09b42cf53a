"""Writes of a thread that waits: it writes by itself with SQLite's only writing connection, while nobody else does."""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import faults
from holdfast.db import ConnectionManager, DialectName, Pipeline
from holdfast.db.backend import SqliteBackend
from holdfast.db.pipeline.operation import Fleeting
from holdfast.errors import Conflict, PipelineClosed, QueryFailed, Retryable, UnknownCommit
from holdfast.testing.contract.venue import until
from holdfast.testing.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from holdfast.db import Transaction
    from holdfast.db.pipeline.operation import Values

WRITER = "holdfast-sqlite-writer-0"


class Watched(Ledger):
    """Notes which threads wrote; raises what it is told to, once, after it has written."""

    def __init__(self) -> None:
        super().__init__(DialectName.SQLITE)
        self.threads: list[str] = []
        self.asked = 0
        self.fails: BaseException | None = None

    async def apply(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[str | Exception]:
        self.threads.append(threading.current_thread().name)
        outcomes = await super().apply(transaction, rows)
        if self.fails is not None:
            fails, self.fails = self.fails, None
            raise fails
        return outcomes

    async def recall(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[str | None]:
        self.asked += 1
        return await super().recall(transaction, rows)


class WatchedTogether(Watched):
    """The same in a transaction, as what takes more than one statement is written."""

    def __init__(self) -> None:
        super().__init__()
        self.one_statement = False


class WatchedFleeting(Watched, Fleeting):
    """The same for rows that need not be on the disk."""


KINDS = pytest.mark.parametrize("kind", [Watched, WatchedTogether])


@asynccontextmanager
async def opened(tmp_path: Path, ledger: Ledger) -> AsyncIterator[tuple[ConnectionManager, Pipeline]]:
    async with ConnectionManager(f"sqlite:///{tmp_path / 'ledger.db'}") as manager:
        await ledger.create(manager)
        async with Pipeline(manager) as pipeline:
            yield manager, pipeline


async def on_thread(pipeline: Pipeline, kind: Ledger, key: str, note: str = "") -> str:
    """Write from a thread called "mine"."""
    told: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def write() -> None:
        try:
            outcome: Any = pipeline.write_blocking(kind, (key, note, 0))
        except BaseException as error:  # noqa: BLE001 -- told to the test
            told.get_loop().call_soon_threadsafe(told.set_exception, error)
        else:
            told.get_loop().call_soon_threadsafe(told.set_result, outcome)

    threading.Thread(target=write, name="mine").start()
    return str(await told)


def writer(manager: ConnectionManager) -> threading.Lock:
    backend = manager.backend()
    assert isinstance(backend, SqliteBackend)
    return backend.writer.turn


async def alone(manager: ConnectionManager, pipeline: Pipeline, kind: Ledger, key: str, note: str = "") -> str:
    """Write from a thread while nobody else does: the writer may have told what it did last, and not be done yet."""
    turn = writer(manager)
    await until(lambda: not turn.locked())
    return await on_thread(pipeline, kind, key, note)


async def keys(ledger: Ledger, manager: ConnectionManager) -> list[str]:
    return [row["entry_key"] for row in await ledger.entries(manager)]


@KINDS
def test_thread_that_writes_alone_writes_itself(tmp_path: Path, kind: type[Watched]) -> None:
    async def scene() -> None:
        ledger = kind()
        async with opened(tmp_path, ledger) as (manager, pipeline):
            assert [await alone(manager, pipeline, ledger, key) for key in "abc"] == ["a", "b", "c"]
            assert ledger.threads == ["mine"] * 3
            assert (pipeline.commits, pipeline.unsettled) == (3, 0)
            assert await keys(ledger, manager) == ["a", "b", "c"]

    asyncio.run(scene())


def test_thread_leaves_it_to_the_writer_while_somebody_has_the_turn(tmp_path: Path) -> None:
    async def scene() -> None:
        ledger = Watched()
        async with opened(tmp_path, ledger) as (manager, pipeline):
            with writer(manager):
                tasks = [asyncio.create_task(on_thread(pipeline, ledger, key)) for key in "ab"]
                await until(lambda: pipeline.unsettled == 2)
                assert ledger.threads == []
            assert await asyncio.gather(*tasks) == ["a", "b"]
            assert ledger.threads == [WRITER]
            assert await keys(ledger, manager) == ["a", "b"]

    asyncio.run(scene())


def test_what_is_handed_over_while_a_thread_writes_is_written_by_the_writer_after_it(tmp_path: Path) -> None:
    async def scene() -> None:
        ledger = Watched()
        async with opened(tmp_path, ledger) as (manager, pipeline):
            inside, go_on = threading.Event(), threading.Event()

            def wait() -> None:
                inside.set()
                assert go_on.wait(60)

            faults.arm("pipeline.before_commit", wait)
            try:
                first = asyncio.create_task(alone(manager, pipeline, ledger, "first"))
                await until(inside.is_set)
                later = [asyncio.create_task(on_thread(pipeline, ledger, "thread"))]
                later.append(asyncio.create_task(pipeline.write(ledger, ("task", "", 0))))
                await until(lambda: pipeline.unsettled == 3)
                assert not any(task.done() for task in later)
                assert pipeline.oldest_age() > 0
            finally:
                faults.disarm()
                go_on.set()
            assert await asyncio.gather(first, *later) == ["first", "thread", "task"]
            assert ledger.threads[0] == "mine"
            assert set(ledger.threads[1:]) == {WRITER}
            assert await keys(ledger, manager) == ["first", "task", "thread"]

    asyncio.run(scene())


def test_rows_that_need_not_be_on_the_disk_are_the_writers(tmp_path: Path) -> None:
    async def scene() -> None:
        ledger = WatchedFleeting()
        async with opened(tmp_path, ledger) as (_, pipeline):
            assert await on_thread(pipeline, ledger, "a") == "a"
            assert ledger.threads == [WRITER]

    asyncio.run(scene())


@pytest.mark.parametrize(("fails", "asked"), [(Retryable("again"), 0), (UnknownCommit("perhaps"), 1)])
def test_what_must_be_tried_again_is_left_to_the_writer(tmp_path: Path, fails: Exception, asked: int) -> None:
    async def scene() -> None:
        ledger = WatchedTogether()
        async with opened(tmp_path, ledger) as (manager, pipeline):
            ledger.fails = fails
            assert await alone(manager, pipeline, ledger, "a") == "a"
            assert ledger.threads == ["mine", WRITER]
            assert ledger.asked == asked
            assert (await keys(ledger, manager), pipeline.unsettled) == (["a"], 0)

    asyncio.run(scene())


def test_row_that_was_written_after_all_is_not_written_again(tmp_path: Path) -> None:
    async def scene() -> None:
        ledger = Watched()  # its statement has committed by itself when it fails
        async with opened(tmp_path, ledger) as (manager, pipeline):
            ledger.fails = UnknownCommit("perhaps")
            assert await alone(manager, pipeline, ledger, "a") == "a"
            assert ledger.threads == ["mine"]
            assert (ledger.asked, await keys(ledger, manager), pipeline.unsettled) == (1, ["a"], 0)

    asyncio.run(scene())


@KINDS
def test_error_of_the_row_is_raised_in_its_thread_and_leaves_nothing_open(tmp_path: Path, kind: type[Watched]) -> None:
    async def scene() -> None:
        ledger = kind()
        async with opened(tmp_path, ledger) as (manager, pipeline):
            await alone(manager, pipeline, ledger, "a", "first")
            with pytest.raises(Conflict):
                await alone(manager, pipeline, ledger, "a", "second")
            ledger.fails = QueryFailed("refused")
            with pytest.raises(QueryFailed, match="refused"):
                await alone(manager, pipeline, ledger, "b")
            assert await alone(manager, pipeline, ledger, "c") == "c"
            assert set(ledger.threads) == {"mine"}
            assert "c" in await keys(ledger, manager)

    asyncio.run(scene())


def test_thread_that_is_interrupted_takes_back_what_it_wrote_and_others_go_on(tmp_path: Path) -> None:
    async def scene() -> None:
        ledger = WatchedTogether()
        async with opened(tmp_path, ledger) as (manager, pipeline):
            ledger.fails = KeyboardInterrupt()
            with pytest.raises(KeyboardInterrupt):
                await alone(manager, pipeline, ledger, "interrupted")
            assert (pipeline.unsettled, writer(manager).locked()) == (0, False)
            assert await pipeline.write(ledger, ("task", "", 0)) == "task"
            assert await alone(manager, pipeline, ledger, "thread") == "thread"
            assert await keys(ledger, manager) == ["task", "thread"]

    asyncio.run(scene())


def test_transaction_that_an_interrupted_thread_left_open_is_rolled_back_before_the_next_job(tmp_path: Path) -> None:
    async def scene() -> None:
        ledger = Watched()
        async with opened(tmp_path, ledger) as (manager, pipeline):
            backend = manager.backend()
            assert isinstance(backend, SqliteBackend)
            for write in (on_thread(pipeline, ledger, "thread"), pipeline.write(ledger, ("task", "", 0))):
                with backend.writer.turn:
                    backend.writer.connection.begin()
                    backend.writer.connection.execute("INSERT INTO holdfast_ledger VALUES ('left', '', 0)", ())
                await write
            assert await keys(ledger, manager) == ["task", "thread"]

    asyncio.run(scene())


def test_pipeline_that_is_closed_waits_for_a_thread_that_writes_and_takes_no_more(tmp_path: Path) -> None:
    async def scene() -> None:
        ledger = Watched()
        async with opened(tmp_path, ledger) as (manager, pipeline):
            inside, go_on = threading.Event(), threading.Event()

            def wait() -> None:
                inside.set()
                assert go_on.wait(60)

            faults.arm("pipeline.before_commit", wait)
            try:
                first = asyncio.create_task(alone(manager, pipeline, ledger, "first"))
                await until(inside.is_set)
                closing = asyncio.create_task(pipeline.close(timeout=60))
                await asyncio.sleep(0)  # it has begun, and waits
                with pytest.raises(PipelineClosed):
                    await on_thread(pipeline, ledger, "late")
                assert not closing.done()
            finally:
                faults.disarm()
                go_on.set()
            assert await first == "first"
            await closing
            assert await keys(ledger, manager) == ["first"]

    asyncio.run(scene())


def test_thread_is_told_that_the_pipeline_gave_up_before_its_write_was_to_be_tried_again(tmp_path: Path) -> None:
    async def scene() -> None:
        ledger = WatchedTogether()
        async with opened(tmp_path, ledger) as (manager, pipeline):
            inside, go_on = threading.Event(), threading.Event()

            def wait() -> None:
                inside.set()
                assert go_on.wait(60)

            faults.arm("pipeline.taken", wait)
            try:
                ledger.fails = Retryable("again")
                first = asyncio.create_task(alone(manager, pipeline, ledger, "first"))
                await until(inside.is_set)
                await pipeline.close(timeout=0)
            finally:
                faults.disarm()
                go_on.set()
            with pytest.raises(PipelineClosed):
                await first
            assert (await keys(ledger, manager), pipeline.unsettled) == ([], 0)

    asyncio.run(scene())


def test_many_threads_and_tasks_write_everything_once(tmp_path: Path) -> None:
    async def scene() -> None:
        ledger = Watched()

        def write(pipeline: Pipeline, number: int) -> None:
            for count in range(25):
                key = f"thread-{number}-{count}"
                assert pipeline.write_blocking(ledger, (key, "", count)) == key

        async def task(pipeline: Pipeline, number: int) -> None:
            for count in range(25):
                key = f"task-{number}-{count}"
                assert await pipeline.write(ledger, (key, "", count)) == key

        async with opened(tmp_path, ledger) as (manager, pipeline):
            threads = [asyncio.to_thread(write, pipeline, number) for number in range(4)]
            await asyncio.gather(*threads, *(task(pipeline, number) for number in range(4)))
            assert len(await keys(ledger, manager)) == 200
            assert pipeline.unsettled == 0

    asyncio.run(scene())


def test_loop_that_is_blocked_holds_up_no_thread_that_writes(tmp_path: Path) -> None:
    async def main() -> None:
        ledger = Ledger(DialectName.SQLITE)
        async with opened(tmp_path, ledger) as (_, pipeline):
            written, in_time = threading.Event(), []

            def write() -> None:
                pipeline.write_blocking(ledger, ("from a thread", "", 0))
                written.set()

            def block() -> None:
                threading.Thread(target=write, daemon=True).start()
                in_time.append(written.wait(60))

            task = asyncio.ensure_future(pipeline.write(ledger, ("from a task", "", 0)))
            asyncio.get_running_loop().call_soon(block)  # in the round in which the task hands over, and after it
            await task
            assert in_time == [True]

    asyncio.run(main())
