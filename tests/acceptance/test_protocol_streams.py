"""I1, I9, I16: what is written to streams commits with its record, once, whoever dies and wherever."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import Client
from holdfast.db import ConnectionManager
from holdfast.db.migrations.migrator import Migrator
from holdfast.errors import AttemptOver, StreamClosed, Superseded
from holdfast.testing.contract.venue import apart
from holdfast.testing.run_rows import RunRows
from holdfast.workflows.facts import RecordSteps
from holdfast.workflows.operations.voice import RecordWrites, SideWrite
from holdfast.workflows.streams import stream_queries
from holdfast.workflows.streams.entries import CLOSED, AppendEntries, Entry
from holdfast.workflows.streams.live import LiveEntry, WriteLive

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.db import Transaction
    from holdfast.testing.stage import Stage

PROGRAM = Path(__file__).parent / "programs" / "streamer.py"
KINDS = ["sqlite", "postgres", "mariadb"]
LEASE = {"lease": 0.6}

# Where a worker may die, and the how manieth time it comes there. Entries are written in this order: begin, x and y
# (live), what the step said, end, and the end of the stream.
POINTS = [
    ("stream.written", 1),
    ("stream.written", 2),
    ("stream.written", 3),
    ("step.after_user_code", 1),
    ("stream.written", 4),
    ("pipeline.before_commit", 4),
    ("stream.written", 6),
]


def check_streams(scene: Stage, run_id: str, value: int) -> None:
    """Check that everything was written once, and that nothing of a lost attempt is left."""
    with Client(scene.url) as client:
        assert client.get_all_stream_entries(run_id) == {
            "s": ["begin", f"step {value}", "end"],
            "live": ["x", "y"],
        }
        states = {each.key: each for each in client.list_streams(run_id)}
        assert (states["s"].next_offset, states["s"].closed) == (4, True)
    left = scene.fetch("SELECT 1 FROM {attempts}".replace("{attempts}", attempts_table(scene)))
    assert left == []


def attempts_table(scene: Stage) -> str:
    return "holdfast.stream_attempts" if scene.url.startswith("postgres") else "stream_attempts"


def ended(scene: Stage, colour: str, runs: dict[str, int]) -> None:
    """Have all runs end in one more worker, and check what they wrote."""
    last = scene.ready(colour, app=LEASE)
    for run_id, value in runs.items():
        last.tell("run", "streaming", run_id, value)
    for run_id, value in runs.items():
        assert last.hear("result", run_id) == ["result", run_id, value]
        check_streams(scene, run_id, value)
    scene.check_record()


@pytest.mark.parametrize("kind", KINDS)
def test_i16_streams_hold_everything_once_though_one_worker_after_the_other_dies(
    kind: str, stage: Callable[[str], Stage]
) -> None:
    scene, runs = stage(kind), dict[str, int]()
    for number, (point, at) in enumerate(POINTS[1:6]):
        doomed = scene.ready(("sync", "async")[number % 2], app=LEASE, faults=[(point, at, "kill")])
        runs[f"streaming-{number}"] = number
        doomed.tell("start", "streaming", f"streaming-{number}", number)
        assert doomed.end() == -signal.SIGKILL
    ended(scene, "async", runs)


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("colour", ["sync", "async"])
@pytest.mark.parametrize(("point", "at"), POINTS)
def test_i16_streams_hold_everything_once_though_a_worker_dies(
    kind: str, colour: str, point: str, at: int, stage: Callable[[str], Stage]
) -> None:
    scene = stage(kind)
    doomed = scene.ready(colour, app=LEASE, faults=[(point, at, "kill")])
    doomed.tell("start", "streaming", "streaming-1", 1)
    assert doomed.end() == -signal.SIGKILL
    ended(scene, colour, {"streaming-1": 1})


class Bench:
    """A migrated database with a run, and the kinds that write its streams."""

    def __init__(self, manager: ConnectionManager) -> None:
        self.manager = manager
        self.rows = RunRows(manager)
        queries = stream_queries(manager.dialect, "holdfast")
        self.append = AppendEntries(queries, lambda _: None)
        self.record = RecordWrites(RecordSteps(self.rows.queries), self.rows.queries)
        self.live = WriteLive(queries)
        self.run = ""

    def said(self, *values: str, position: int = 1, token: str = "") -> Any:
        """Return the row of a record of this position, with values for the stream ``s`` beside it."""
        entries = [
            Entry(self.run, "s", value, None if value == CLOSED else "portable_json", position) for value in values
        ]
        step = (
            self.run,
            token or self.rows.token(self.run),
            position,
            "talk",
            str(position - 1),
            "mark",
            None,
            None,
            None,
            None,
            0,
        )
        return step, tuple(SideWrite(self.append, each) for each in entries)

    def spoken(self, number: int, *, attempt: int = 1, token: str = "") -> LiveEntry:
        """Return a live entry of the first operation."""
        owner = token or self.rows.token(self.run)
        return LiveEntry(self.run, owner, "0", 1, attempt, number, "s", f'"{attempt}.{number}"', "portable_json")

    async def apply(self, kind: Any, *rows: Any) -> Any:
        return await self.manager.run(lambda transaction: kind.apply(transaction, rows))

    async def recall(self, kind: Any, *rows: Any) -> Any:
        return await self.manager.run(lambda transaction: kind.recall(transaction, rows))

    async def values(self) -> list[str]:
        table = self.rows.runs.replace("workflow_status", "streams")
        rows = await self.manager.fetch(f"SELECT * FROM {table} WHERE workflow_uuid = ?", self.run)
        return [row["value"] for row in sorted(rows, key=lambda row: row["offset"])]


@pytest.fixture(params=KINDS)
def at_bench(request: pytest.FixtureRequest, fresh_database: Callable[[str], str]) -> Callable[..., None]:
    """Call with a scene at a bench."""
    url = fresh_database(request.param)

    def run(scene: Callable[[Bench], Awaitable[None]]) -> None:
        async def play() -> None:
            async with ConnectionManager(url) as manager:
                await Migrator(manager).migrate()
                bench = Bench(manager)
                bench.run = await bench.rows.insert()
                await scene(bench)

        asyncio.run(play())

    return run


def test_i1_a_superseded_execution_writes_nothing(at_bench: Callable[..., None]) -> None:
    async def scene(bench: Bench) -> None:
        mine, stale = await bench.apply(bench.record, bench.said('"a"'), bench.said('"b"', position=2, token="stale"))
        assert mine is True
        assert isinstance(stale, Superseded)
        spoken = bench.spoken(0, token="stale")
        [outcome] = await bench.apply(bench.live, spoken._replace(identity="5", position=6))
        assert isinstance(outcome, Superseded)
        assert await bench.values() == ['"a"']

    at_bench(scene)


def test_i9_what_is_stored_is_found_and_not_written_again(at_bench: Callable[..., None]) -> None:
    async def scene(bench: Bench) -> None:
        assert await bench.recall(bench.record, bench.said('"a"')) == [None]
        assert await bench.apply(bench.record, bench.said('"a"', '"b"')) == [True]
        assert await bench.recall(bench.record, bench.said('"a"'), bench.said('"c"', position=2)) == [True, None]
        live = bench.spoken(0)._replace(identity="1", position=2)
        assert await bench.recall(bench.live, live) == [None]
        assert await bench.apply(bench.live, live) == [True]
        assert await bench.recall(bench.live, live, live._replace(entry_no=1)) == [True, None]
        assert await bench.values() == ['"a"', '"b"', '"1.0"']

    at_bench(scene)


def test_i9_asking_waits_for_a_commit_that_is_still_under_way(at_bench: Callable[..., None]) -> None:
    """Where it did not, the answer would be that nothing is there, and the entries would be written twice."""

    async def scene(bench: Bench) -> None:
        if bench.manager.dialect == "sqlite":
            return  # one writer: nobody can ask while it commits
        asked = asyncio.Event()

        async def slow(transaction: Transaction) -> None:
            await bench.record.apply(transaction, [bench.said('"a"')])
            asking.append(asyncio.create_task(apart(bench.recall(bench.record, bench.said('"a"')))))
            asyncio.get_running_loop().call_later(0.3, asked.set)
            await asked.wait()

        asking: list[asyncio.Task[Any]] = []
        await bench.manager.run(slow)
        assert await asking[0] == [True]

    at_bench(scene)


def test_i16_an_attempt_that_is_over_is_refused_and_what_it_wrote_is_thrown_away(at_bench: Callable[..., None]) -> None:
    async def scene(bench: Bench) -> None:
        assert await bench.apply(bench.live, bench.spoken(0), bench.spoken(1)) == [True, True]
        assert await bench.values() == ['"1.0"', '"1.1"']
        late, current = await bench.apply(bench.live, bench.spoken(2), bench.spoken(0, attempt=2))
        assert isinstance(late, AttemptOver)
        assert current is True
        assert await bench.values() == ["__HOLDFAST_STREAM_RESET__0", '"2.0"']
        [late] = await bench.apply(bench.live, bench.spoken(3))
        assert isinstance(late, AttemptOver)
        await bench.apply(bench.record, bench.said())
        [late] = await bench.apply(bench.live, bench.spoken(1, attempt=2))
        assert isinstance(late, AttemptOver)
        assert await bench.values() == ["__HOLDFAST_STREAM_RESET__0", '"2.0"']

    at_bench(scene)


def test_entry_behind_the_end_is_refused_alone(at_bench: Callable[..., None]) -> None:
    async def scene(bench: Bench) -> None:
        assert await bench.apply(bench.record, bench.said('"a"', CLOSED, CLOSED)) == [True]
        with pytest.raises(StreamClosed):
            await bench.apply(bench.record, bench.said('"b"', position=2))
        [refused] = await bench.apply(bench.live, bench.spoken(0)._replace(identity="4"))
        assert isinstance(refused, StreamClosed)
        assert await bench.values() == ['"a"', CLOSED]

    at_bench(scene)
