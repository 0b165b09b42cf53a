"""Slots under the ownership protocol, with real processes: each fires exactly once, whoever dies."""

from __future__ import annotations

import random
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.testing.clocks import WrongClock
from holdfast.testing.stage import Stage
from holdfast.testing.workers import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from holdfast.testing.nursery import Nursery
    from holdfast.testing.workers import Worker

PROGRAM = Path(__file__).parent / "programs" / "scheduler.py"
EVERY_KIND = pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb"])
EVERY_TEN_SECONDS = "*/10 * * * * *"
TEN_SECONDS = timedelta(seconds=10)


class Slots:
    """A database with a clock that is set, and the schedules in it."""

    def __init__(self, stage: Stage, kind: str, clocks: Path) -> None:
        self.stage = stage
        self._clocks = clocks
        self._schedules = f"{'holdfast.' if kind == 'postgres' else ''}workflow_schedules"
        stage.execute("CREATE TABLE test_clock (ms BIGINT)")
        stage.execute("INSERT INTO test_clock VALUES (0)")
        self._ahead = timedelta()

    def recruit(self, clock: str, **settings: Any) -> tuple[Worker, WrongClock]:
        """Start a process with a wrong clock of its own, and wait until it has launched."""
        made = WrongClock(self._clocks / f"clock-{len(list(self._clocks.glob('clock-*')))}", clock)
        return self.stage.ready(environment=made.environment, **settings), made

    def create(self, worker: Worker, *names: str, **settings: Any) -> None:
        for name in names:
            worker.tell("create", name, EVERY_TEN_SECONDS, settings)
            worker.hear("done", "create", name)

    def pass_by(self, span: timedelta, workers: Sequence[Worker]) -> None:
        """Set the clock ahead, and have everybody look."""
        self._ahead += span
        self.stage.execute("UPDATE test_clock SET ms = ?", int(self._ahead.total_seconds() * 1000))
        for worker in workers:
            if worker.alive:
                worker.tell("look")

    def now(self) -> datetime:
        return datetime.now(UTC) + self._ahead

    def rows(self) -> list[dict[str, Any]]:
        return self.stage.fetch(f"SELECT * FROM {self._schedules} ORDER BY schedule_name")

    def fired_until(self, moment: datetime) -> bool:
        """Whether every slot up to a moment is decided about."""
        return all(row["next_due_epoch_ms"] > moment.timestamp() * 1000 for row in self.rows())

    def newest_slot(self) -> datetime:
        """Return the last slot of any schedule that was fired."""
        return max(datetime.fromisoformat(row["last_fired_at"]) for row in self.rows())

    def check_each_once(self) -> int:
        """Check that the slots between the first run and the last of each schedule all have their run; count them."""
        until(self.stage.all_ended)
        happened = {(effect.run_id, effect.what) for effect in self.stage.ledger.all()}
        expected = set()
        for row in self.rows():
            name = row["schedule_name"]
            first = datetime.fromtimestamp(row["created_at"] / 1000, UTC).replace(microsecond=0)
            slot = first + timedelta(seconds=10 - first.second % 10)
            if run_and_effect(name, slot - TEN_SECONDS) in happened:  # reckoned a moment before the row was written
                slot -= TEN_SECONDS
            while slot <= datetime.fromisoformat(row["last_fired_at"]):
                expected.add(run_and_effect(name, slot))
                slot += TEN_SECONDS
        assert happened == expected
        assert set(self.stage.statuses()) == {run_id for run_id, _ in expected}
        return len(expected)


def run_and_effect(name: str, slot: datetime) -> tuple[str, str]:
    return f"sched-{name}-{slot.isoformat()}", f"{name} {slot.isoformat()}"


@pytest.fixture
def slots(fresh_database: Callable[[str], str], tmp_path: Path, nursery: Nursery) -> Iterator[Callable[[str], Slots]]:
    """Call with "sqlite", "postgres" or "mariadb"; the workers are killed afterwards."""
    with ExitStack() as afterwards:
        yield lambda kind: Slots(
            Stage(PROGRAM, fresh_database(kind), tmp_path / "effects", afterwards, nursery), kind, tmp_path
        )


@EVERY_KIND
@pytest.mark.parametrize("place", ["schedule.before_commit", "schedule.fired"])
def test_i15_slot_fires_once_when_the_process_that_fires_it_dies(
    slots: Callable[[str], Slots], kind: str, place: str
) -> None:
    made = slots(kind)
    survivor = made.stage.ready()
    made.create(survivor, "a", "b", automatic_backfill=True)
    made.stage.pause(survivor)  # so that the other one gets there first
    victim = made.stage.ready(die=place)
    made.pass_by(3 * TEN_SECONDS, [victim])
    assert victim.end() != 0
    there = len(made.stage.statuses())
    assert (there == 0) is (place == "schedule.before_commit")
    survivor.wake()
    made.pass_by(3 * TEN_SECONDS, [survivor])
    moment = made.now()
    until(lambda: made.fired_until(moment))
    made.pass_by(-timedelta(days=1), [])  # so that nothing more fires while it is checked
    assert made.check_each_once() >= 2 * 6


@pytest.mark.parametrize(
    ("kind", "clocks"),
    [
        ("postgres", ["+90m", "-3h", "-7m", "+20m x5"]),
        ("mariadb", ["+90m", "-3h", "-7m", "+20m x5"]),
        ("sqlite", ["+90s", "-2m", "-20s", "+1m x2"]),  # whose clock is that of whoever asks: slots come early, once
    ],
)
def test_i15_each_slot_fires_once_with_four_processes_kills_and_wrong_clocks(
    slots: Callable[[str], Slots], kind: str, clocks: list[str]
) -> None:
    """No process has a right clock, nor the same as another, and two clocks are set while they run."""
    made = slots(kind)
    recruited = [made.recruit(clock) for clock in clocks]
    workers = [worker for worker, _ in recruited]
    made.create(workers[1], "a", "b", "c", "d", automatic_backfill=True)
    for step in range(12):
        made.pass_by(2 * TEN_SECONDS, workers)
        if step == 4:
            workers[0].kill()
            made.stage.pause(workers[3])
            recruited[1][1].set("+3h" if kind != "sqlite" else "+30s")
        if step == 8:
            workers[3].wake()
            workers.append(made.recruit("-1h")[0])
            recruited[2][1].set("-2h")
    moment = made.now()
    until(lambda: made.fired_until(moment))
    made.pass_by(-timedelta(days=1), [])
    assert made.check_each_once() >= 4 * 24
    if kind != "sqlite":
        assert made.newest_slot() <= made.now() + timedelta(days=1)  # by the database's clock, which is the machine's


@pytest.mark.soak
@EVERY_KIND
@pytest.mark.parametrize("seed", range(5))
def test_i15_each_slot_fires_once_whatever_happens(slots: Callable[[str], Slots], kind: str, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 -- a test that can be repeated
    made = slots(kind)
    workers = [made.stage.ready() for _ in range(4)]
    made.create(workers[0], "a", "b", "c", "d", automatic_backfill=True)
    for _ in range(80):
        made.pass_by(timedelta(seconds=chance.randint(1, 60)), workers)
        lost = chance.choice(workers)
        match chance.randint(0, 5):
            case 0:
                lost.kill()
            case 1:
                made.stage.pause(lost)
            case _:
                lost.wake() if lost.alive else None
        workers = [worker for worker in workers if worker.alive]
        if len(workers) < 4:
            clock = f"{chance.randint(-90, 90):+}{'s' if kind == 'sqlite' else 'h'}"
            place = chance.choice(["schedule.before_commit", "schedule.fired", None])
            workers.append(made.recruit(clock, **({"die": place} if place else {}))[0])
    for worker in workers:
        worker.wake()
    workers.append(made.stage.ready())
    moment = made.now()
    until(lambda: made.fired_until(moment))
    made.pass_by(-timedelta(days=1), [])
    assert made.check_each_once() >= 4 * 40
