"""Processes that walk, write and claim flow checkpoints, and die while they do. On every backend that is shared."""

from __future__ import annotations

import signal
import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import StaleCheckpoint
from holdfast.model.world import RealWorld
from holdfast.stores import CheckpointStatus, FlowCheckpoint, from_url, resume
from holdfast.testing.workers import Worker, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.stores import CheckpointBackend
    from holdfast.testing.nursery import Nursery

PROGRAM = Path(__file__).parent / "programs" / "flow_process.py"
KINDS = ("file", "sqlite", "postgres", "mariadb", "redis")
PROCESSES, ROUNDS = 4, 10
DAY = 86400


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "file":
        return f"file://{tmp_path}/flows"
    found: str = request.getfixturevalue("fresh_database")(request.param)
    return found


@pytest.fixture
def start(nursery: Nursery) -> Iterator[Callable[..., Worker]]:
    """Call with settings for a process; it is killed afterwards."""
    with ExitStack() as afterwards:

        def make(**settings: Any) -> Worker:
            return afterwards.enter_context(Worker(PROGRAM, nursery, **settings))

        yield make


def going_on(backend: CheckpointBackend, effects: Path) -> FlowCheckpoint | None:
    """Go on from the newest checkpoint as another process would; None while it still waits for an answer."""
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("flow_process", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    program = module_from_spec(spec)
    before, sys.argv = sys.argv, [str(PROGRAM), f'{{"effects": "{effects}"}}']
    try:
        spec.loader.exec_module(program)
    finally:
        sys.argv = before
    latest = backend.get_latest("flow")
    assert latest is not None
    answers = {"second": 10} if latest.has_pending_inputs() else None
    reached = resume(latest.id, program.STEPS, backend, answers=answers)
    return reached if reached.status is CheckpointStatus.COMPLETED else None


class Tomorrow(RealWorld):
    """A clock that is a day ahead."""

    def now(self) -> float:
        return super().now() + DAY


def in_a_day(url: str) -> CheckpointBackend:
    """Return a backend to whose clock every lease of now is over."""
    if url.startswith("file://"):
        return from_url(url, world=Tomorrow())
    if url.startswith("redis://"):
        import redis

        with redis.Redis.from_url(url) as client:
            client.set("{holdfast:flow_checkpoint}:ahead", DAY * 1000)
        return from_url(url, clock_offset_key="{holdfast:flow_checkpoint}:ahead")
    return from_url(url, clock_offset_ms=f"SELECT {DAY * 1000}")


POINTS = [
    *(
        (kind, "flow.stored", at)
        for kind, at in (("file", 1), ("sqlite", 2), ("postgres", 3), ("mariadb", 5), ("redis", 6))
    ),
    *(
        (kind, "flow.claimed", at)
        for kind, at in (("file", 1), ("sqlite", 2), ("postgres", 2), ("mariadb", 1), ("redis", 2))
    ),
    ("file", "flow.listed", 2),
]
EVERY_POINT = [
    *((kind, "flow.stored", at) for kind in KINDS for at in range(1, 7)),
    *((kind, "flow.claimed", at) for kind in KINDS for at in (1, 2)),
    *(("file", "flow.listed", at) for at in range(2, 6)),
]
EVERY_KIND = pytest.mark.parametrize("url", KINDS, indirect=True)
SOME_KINDS = pytest.mark.parametrize("url", ["file", "sqlite", "redis"], indirect=True)


@pytest.mark.soak
@pytest.mark.parametrize(("url", "point", "at"), EVERY_POINT, indirect=["url"])
def test_flow_goes_on_wherever_its_process_died(
    url: str, point: str, at: int, start: Callable[..., Worker], tmp_path: Path
) -> None:
    goes_on_after_a_death(url, point, at, start, tmp_path)


@pytest.mark.parametrize(("url", "point", "at"), POINTS, indirect=["url"])
def test_flow_of_a_process_that_died_goes_on_and_repeats_no_finished_step(
    url: str, point: str, at: int, start: Callable[..., Worker], tmp_path: Path
) -> None:
    goes_on_after_a_death(url, point, at, start, tmp_path)


def goes_on_after_a_death(url: str, point: str, at: int, start: Callable[..., Worker], tmp_path: Path) -> None:
    effects = tmp_path / "effects"
    doomed = start(url=url, verb="walk", effects=str(effects), faults=[(point, at)])
    assert doomed.end() == -signal.SIGKILL, doomed.log()
    with in_a_day(url) as backend:
        latest = backend.get_latest("flow")
        assert latest is not None
        finished = set(latest.completed_node_ids)
        left = [name for name in ("first", "second", "third") if name not in finished]
        assert [name for name, state in latest.node_states.items() if state.status == "active"] == left[:1]
        last = until(lambda: going_on(backend, effects))
        assert last is not None
        assert last.get_node_output("third") == "20!"
        done = Counter(effects.read_text().split())
        assert done.keys() == {"first", "second", "third"}
        assert all(done[name] == 1 for name in finished)
        assert sum(done.values()) <= 4
        assert backend.pending_inputs("flow") == []


@EVERY_KIND
def test_readers_see_whole_checkpoints_while_writers_write_and_die(url: str, start: Callable[..., Worker]) -> None:
    with from_url(url) as backend:
        backend.save(FlowCheckpoint("flow", "steady", id="steady", metadata={"one": 0, "two": 0}))
        writers = [start(url=url, verb="write") for _ in range(2)]
        for writer in writers:
            writer.hear("ready")
        for reads in range(60):
            steady = backend.load("steady")
            assert steady is not None
            listed = backend.list_by_flow("flow", limit=5)
            for each in (steady, *listed):
                assert each.metadata["one"] == each.metadata["two"]
            if reads == 30:
                writers[0].kill()
        assert writers[1].alive, writers[1].log()
        writers[1].kill()
        until(lambda: stored_last(backend))


def stored_last(backend: CheckpointBackend) -> bool:
    """Store a new state, and a checkpoint after it; False if what a killed writer had sent was carried out later."""
    steady = backend.load("steady")
    assert steady is not None
    assert steady.metadata["one"] > 0
    try:
        backend.save(steady)
    except StaleCheckpoint:
        return False
    made = FlowCheckpoint("flow", "after")
    backend.save(made)
    latest = backend.get_latest("flow")
    assert latest is not None
    return latest.id == made.id


@pytest.mark.parametrize("url", ["file", "sqlite"], indirect=True)
def test_full_disk_is_a_clear_error_and_leaves_the_old_checkpoint_whole(url: str, start: Callable[..., Worker]) -> None:
    writer = start(url=url, verb="full")
    [_, refusal] = writer.hear("refused")
    assert refusal is not None
    assert "The checkpoint 1 of the flow flow was not stored" in refusal
    assert writer.hear("there") == ["there", "old", ["1"]]
    assert writer.hear("again") == ["again", 2_000_000]


@SOME_KINDS
def test_hundred_claimers_in_processes_have_one_winner_each_round(url: str, start: Callable[..., Worker]) -> None:
    with from_url(url) as backend:
        for number in range(ROUNDS):
            backend.save(FlowCheckpoint("flow", "run", id=f"race-{number}", status=CheckpointStatus.PAUSED))
    workers = [start(url=url, verb="race", rounds=ROUNDS) for _ in range(PROCESSES)]
    for worker in workers:
        worker.hear("ready")
    for worker in workers:
        worker.tell("go")
    won = Counter(number for worker in workers for number in worker.hear("won")[1])
    assert won == dict.fromkeys(range(ROUNDS), 1)


@pytest.mark.soak
@EVERY_KIND
def test_ten_thousand_checkpoints_of_a_flow_are_listed_and_cleaned_up(url: str) -> None:
    with from_url(url) as backend:
        for number in range(10_000):
            backend.save(FlowCheckpoint("flow", "run", id=str(number), status=CheckpointStatus.COMPLETED))
        assert [each.id for each in backend.list_by_flow("flow", limit=3)] == ["9999", "9998", "9997"]
        assert backend.cleanup("flow", keep_count=10) == 9_990
        assert len(backend.list_by_flow("flow", limit=None)) == 10
