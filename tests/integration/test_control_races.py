"""Changes of runs against each other and against running executions: real connections, and real processes.

Whoever loses a race is told so and has changed nothing. Each race is run for many runs at once, with a connection
manager for each side.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.db import ConnectionManager
from holdfast.db.migrations.migrator import Migrator
from holdfast.errors import Superseded, TransitionRefused, UnknownCommit, WorkflowNotFound
from holdfast.model.workflow import Changes, WorkflowStatus
from holdfast.model.world import RealWorld
from holdfast.testing.run_rows import LONG_AGO, RunRows
from holdfast.workflows.control import Control, control_queries
from holdfast.workflows.facts import STARTED, FinishRuns, RecordSteps, StartChildren, StartRuns

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

KINDS = ["sqlite", "postgres", "mariadb"]
ROUNDS = 25
PATIENCE = 60

Pair = tuple[RunRows, RunRows]


@pytest.fixture(params=KINDS)
def race(request: pytest.FixtureRequest, fresh_database: Callable[[str], str]) -> Callable[..., None]:
    """Call with a race between two sides, each with connections of its own to one database."""
    url = fresh_database(request.param)

    def run(sides: Callable[[RunRows, RunRows], Awaitable[None]], first: type[ConnectionManager] | None = None) -> None:
        async def play() -> None:
            async with (first or ConnectionManager)(url) as one, ConnectionManager(url) as other:
                await Migrator(other).migrate()
                async with asyncio.timeout(PATIENCE):
                    await sides(RunRows(one), RunRows(other))

        asyncio.run(play())

    return run


def step_row(rows: RunRows, run_id: str, position: int, identity: str, child_id: str | None = None) -> tuple[Any, ...]:
    return (run_id, rows.token(run_id), position, "step", identity, None, "1", None, child_id, "portable_json", 0)


def starting(rows: RunRows) -> StartChildren:
    start = StartRuns(rows.queries, application_id="", executor_id="e", incarnation="i")
    return StartChildren(RecordSteps(rows.queries), start)


def child_rows(rows: RunRows, parent: str) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the rows with which an execution of *parent* records a child and starts it."""
    child = f"{parent}-0"
    run = (child, "f", None, None, "{}", "portable_json", f"t-{child}", parent, *[None] * 7, "v")
    return step_row(rows, parent, 1, "0", child), run


def won(changes: Changes) -> bool:
    """Whether the one run that was asked for has changed; if not, it was refused for its status or absence."""
    assert len(changes.changed) + len(changes.refused) == 1
    for error in changes.refused.values():
        assert isinstance(error, TransitionRefused | WorkflowNotFound)
    return bool(changes.changed)


def test_cancel_against_finish_has_one_winner(race: Callable[..., None]) -> None:
    async def sides(one: RunRows, other: RunRows) -> None:
        runs = [await one.insert() for _ in range(ROUNDS)]
        finish = FinishRuns(other.queries)
        cancelled, finished = await asyncio.gather(
            asyncio.gather(*(one.control.cancel([run]) for run in runs)),
            asyncio.gather(
                *(other.write(finish, run, other.token(run), "SUCCESS", "2", None, "portable_json") for run in runs)
            ),
        )
        for run, changes, outcome in zip(runs, cancelled, finished, strict=True):
            assert won(changes) is isinstance(outcome, Superseded)
            assert await one.status(run) == ("CANCELLED" if won(changes) else "SUCCESS")

    race(sides)


def test_cancel_against_the_start_of_a_child_leaves_no_child_running(race: Callable[..., None]) -> None:
    async def sides(one: RunRows, other: RunRows) -> None:
        runs = [await one.insert() for _ in range(ROUNDS)]
        kind = starting(other)
        cancelled, started = await asyncio.gather(
            asyncio.gather(*(one.control.cancel([run]) for run in runs)),
            asyncio.gather(*(other.write(kind, *child_rows(other, run)) for run in runs)),
        )
        for run, changes, outcome in zip(runs, cancelled, started, strict=True):
            assert won(changes)
            assert await one.status(run) == "CANCELLED"
            assert await one.status(f"{run}-0") == ("CANCELLED" if outcome is STARTED else None)
            assert len(await one.steps(run)) == (outcome is STARTED)
            assert outcome is STARTED or isinstance(outcome, Superseded)

    race(sides)


def test_cancel_waits_for_a_start_of_a_child_under_way_and_cancels_the_child(race: Callable[..., None]) -> None:
    async def sides(one: RunRows, other: RunRows) -> None:
        run = await one.insert()
        async with other.manager.transaction() as transaction:
            [outcome] = await starting(other).apply(transaction, [child_rows(other, run)])
            assert outcome is STARTED
            cancelling = asyncio.create_task(one.control.cancel([run]))
            await asyncio.wait({cancelling}, timeout=0.3)
            assert not cancelling.done()
        assert won(await cancelling)
        assert await one.status(run) == "CANCELLED"
        assert await one.status(f"{run}-0") == "CANCELLED"

    race(sides)


@pytest.mark.parametrize("verb", ["resume", "rewind"])
def test_same_change_twice_at_once_has_one_winner(race: Callable[..., None], verb: str) -> None:
    async def sides(one: RunRows, other: RunRows) -> None:
        runs = [await one.insert(WorkflowStatus.CANCELLED, steps=2) for _ in range(ROUNDS)]
        found = await asyncio.gather(
            *(getattr(side.control, verb)([run]) for run in runs for side in (one, other)),
        )
        for run, changes in zip(runs, zip(found[::2], found[1::2], strict=True), strict=True):
            assert sorted(won(each) for each in changes) == [False, True]
            row = await one.row(run)
            assert row is not None
            assert row["status"] == "ENQUEUED"
            assert row["generation"] == (2 if verb == "rewind" else 1)

    race(sides)


def test_many_that_cross_each_other_all_end(race: Callable[..., None]) -> None:
    """Two sides change the same runs in opposite orders: rows are held in one order, so neither waits for ever."""

    async def sides(one: RunRows, other: RunRows) -> None:
        runs = [await one.insert(WorkflowStatus.CANCELLED) for _ in range(ROUNDS)]
        found = await asyncio.gather(one.control.resume(runs), other.control.resume(runs[::-1]))
        assert sorted(found[0].changed + found[1].changed) == sorted(runs)
        assert not set(found[0].changed) & set(found[1].changed)

    race(sides)


def test_delete_against_rewind_has_one_winner(race: Callable[..., None]) -> None:
    async def sides(one: RunRows, other: RunRows) -> None:
        runs = [await one.insert(WorkflowStatus.SUCCESS, steps=3) for _ in range(ROUNDS)]
        deleted, rewound = await asyncio.gather(
            asyncio.gather(*(one.control.delete([run]) for run in runs)),
            asyncio.gather(*(other.control.rewind([run], 3) for run in runs)),
        )
        for run, delete, rewind in zip(runs, deleted, rewound, strict=True):
            assert won(delete) is not won(rewind)
            assert await one.status(run) == (None if won(delete) else "ENQUEUED")
            assert len(await one.steps(run)) == (0 if won(delete) else 2)

    race(sides)


def test_delete_with_children_against_the_start_of_a_child_has_one_winner(race: Callable[..., None]) -> None:
    """The run has ended, and a part of it that nobody waits for starts a child under the token that it still has."""

    async def sides(one: RunRows, other: RunRows) -> None:
        runs = [await one.insert(WorkflowStatus.SUCCESS) for _ in range(ROUNDS)]
        kind = starting(other)
        deleted, started = await asyncio.gather(
            asyncio.gather(*(one.control.delete([run], children=True) for run in runs)),
            asyncio.gather(*(other.write(kind, *child_rows(other, run)) for run in runs)),
        )
        for run, changes, outcome in zip(runs, deleted, started, strict=True):
            assert won(changes) is isinstance(outcome, Superseded)
            assert await one.status(run) == (None if won(changes) else "SUCCESS")
            assert await one.status(f"{run}-0") == (None if won(changes) else "PENDING")
            assert len(await one.steps(run)) == (0 if won(changes) else 1)

    race(sides)


def test_forks_of_a_run_that_records_have_a_prefix_of_every_branch(race: Callable[..., None]) -> None:
    async def sides(one: RunRows, other: RunRows) -> None:
        run = await one.insert()
        kind, positions, running = RecordSteps(other.queries), itertools.count(1), asyncio.Event()

        async def branch(number: int) -> None:
            for place in range(20):
                row = step_row(other, run, next(positions), f"~{number}.{place}")
                assert await other.write(kind, *row) is True
                running.set()

        async def fork() -> list[tuple[int, str]]:
            await running.wait()
            forks: list[tuple[int, str]] = []
            while not recording.done() or not forks:
                forks += [(cut, (await one.control.fork([run], cut))[run]) for cut in (15, 1000)]
            return forks

        recording = asyncio.gather(*(branch(number) for number in range(3)))
        for start_step, new in await fork():
            steps = await one.steps(new)
            assert all(step["function_id"] < start_step for step in steps)
            for number in range(3):
                mine = [step["identity"] for step in steps if step["identity"].startswith(f"~{number}.")]
                assert mine == [f"~{number}.{place}" for place in range(len(mine))]
        await recording

    race(sides)


def test_overdue_runs_are_cancelled_once_by_whoever_comes_first(race: Callable[..., None]) -> None:
    async def sides(one: RunRows, other: RunRows) -> None:
        runs = {await one.insert(workflow_deadline_epoch_ms=LONG_AGO) for _ in range(ROUNDS)}
        found: list[str] = []
        while len(found) < len(runs):
            for some in await asyncio.gather(*(side.control.cancel_overdue(7) for side in (one, other, one, other))):
                found += some
        assert sorted(found) == sorted(runs)
        assert {await one.status(run) for run in runs} == {"CANCELLED"}

    race(sides)


def test_attributes_merged_at_once_are_all_there(race: Callable[..., None]) -> None:
    async def sides(one: RunRows, other: RunRows) -> None:
        run = await one.insert(attributes='{"old":1,"gone":2}')
        sides = itertools.cycle((one, other))
        merges = [next(sides).control.update_attributes([run], {f"k{n}": n}, merge=True) for n in range(ROUNDS)]
        await asyncio.gather(*merges, other.control.update_attributes([run], {"gone": None}, merge=True))
        row = await one.row(run)
        assert row is not None
        assert json.loads(row["attributes"]) == {"old": 1} | {f"k{n}": n for n in range(ROUNDS)}

    race(sides)


PROGRAM = """
import asyncio, json, sys
from holdfast.db import ConnectionManager
from holdfast.model.world import RealWorld
from holdfast.testing.run_rows import RunRows

async def main():
    async with ConnectionManager(sys.argv[1]) as manager:
        control = RunRows(manager).control
        print("ready", flush=True)
        runs = json.loads(sys.stdin.readline())
        changed = []
        for run in runs:
            changed += (await control.rewind([run], 2)).changed
        print(json.dumps(changed))

asyncio.run(main())
"""


@pytest.mark.parametrize("kind", KINDS)
def test_processes_that_rewind_the_same_runs_rewind_each_once(kind: str, fresh_database: Callable[[str], str]) -> None:
    url = fresh_database(kind)

    async def prepare() -> list[str]:
        async with ConnectionManager(url) as manager:
            await Migrator(manager).migrate()
            return [await RunRows(manager).insert(WorkflowStatus.ERROR, steps=2) for _ in range(ROUNDS)]

    async def generations(runs: list[str]) -> set[tuple[int, int]]:
        async with ConnectionManager(url) as manager:
            rows = RunRows(manager)
            return {((await rows.row(run) or {})["generation"], len(await rows.steps(run))) for run in runs}

    runs = asyncio.run(prepare())
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, url]
    workers = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write(json.dumps(runs) + "\n")
        worker.stdin.flush()
    told = [json.loads(worker.communicate(timeout=PATIENCE)[0]) for worker in workers]
    assert sorted(itertools.chain(*told)) == sorted(runs)
    assert asyncio.run(generations(runs)) == {(2, 1)}


class Forgetful(ConnectionManager):
    """Loses the reply of a commit, once, after it happened (``lost = "after"``) or instead of it (``"before"``)."""

    lost = ""

    async def run(self, work: Any, *, isolation: str | None = None) -> Any:
        lost, self.lost = self.lost, ""
        if lost == "before":
            raise UnknownCommit("The connection broke during the commit.")
        found = await super().run(work, isolation=isolation)
        if lost == "after":
            raise UnknownCommit("The connection broke during the commit.")
        return found


@pytest.mark.parametrize("lost", ["before", "after"])
def test_change_whose_reply_is_lost_happens_once_and_is_told(race: Callable[..., None], lost: str) -> None:
    async def sides(one: RunRows, other: RunRows) -> None:
        manager, control = one.manager, one.control
        assert isinstance(manager, Forgetful)

        async def ask(changing: Awaitable[Changes]) -> None:
            manager.lost = lost
            changes = await changing
            assert (changes.changed, list(changes.refused)) == ((run,), ["nobody"])
            assert isinstance(changes.refused["nobody"], WorkflowNotFound)

        run = await other.insert(WorkflowStatus.DELAYED, steps=3)
        await ask(control.set_delay([run, "nobody"], None, delay_ms=5))
        await ask(control.cancel([run, "nobody"]))
        assert await other.status(run) == "CANCELLED"
        await ask(control.resume([run, "nobody"]))
        await control.cancel([run])
        await ask(control.rewind([run, "nobody"], 2))
        row = await other.row(run)
        assert row is not None
        assert (row["status"], row["generation"], len(await other.steps(run))) == ("ENQUEUED", 2, 1)
        await ask(control.update_attributes([run, "nobody"], {"a": 1}))
        await control.cancel([run])
        manager.lost = lost
        forks = await control.fork([run], 2)
        assert await other.status(forks[run]) == "ENQUEUED"
        assert len(await other.manager.fetch(f"SELECT 1 FROM {other.runs} WHERE forked_from = ?", run)) == 1
        await ask(control.delete([run, "nobody"]))
        assert await other.status(run) is None
        late = await other.insert(workflow_deadline_epoch_ms=LONG_AGO)
        manager.lost = lost
        assert await control.cancel_overdue() == [late]

    race(sides, Forgetful)


class Hasty(RealWorld):
    """A world in which waiting takes no time."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds * 0)


def test_reply_that_stays_lost_is_an_unknown_commit(race: Callable[..., None]) -> None:
    class Away(ConnectionManager):
        async def run(self, work: Any, *, isolation: str | None = None) -> Any:
            raise UnknownCommit(f"No reply, at {isolation}.")

    async def sides(one: RunRows, other: RunRows) -> None:
        control = Control(one.manager, control_queries(one.manager.dialect, "holdfast"), Hasty())
        with pytest.raises(UnknownCommit, match="READ COMMITTED"):
            await control.cancel([await other.insert()])

    race(sides, Away)
