"""The committer against a small model: every operation has one outcome, and what is acknowledged is there once.

The database is a dictionary behind a fake lane, driven straight through with ``run_sync``; what goes wrong, and when,
is chosen by the test.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import faults
from holdfast.db.pipeline.committer import Committer
from holdfast.db.pipeline.mailbox import Mailbox
from holdfast.db.pipeline.operation import Fleeting, Operation, ThreadWaiter, Unwritten
from holdfast.db.session import run_sync
from holdfast.db.url import DialectName
from holdfast.errors import BrokenOff, ConnectionLost, PipelineClosed, QueryFailed, Retryable, UnknownCommit, WentBack
from holdfast.testing.world import VirtualWorld

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Sequence

    from holdfast.db import Transaction
    from holdfast.db.session import Session

T = TypeVar("T")

FAULTS = ["deadlock", "broken off", "lost", "unknown, written", "unknown, not written", "lost at begin"]


class Watch(VirtualWorld):
    """A world in which as much time passes as is said."""

    passed = 0.0

    def monotonic(self) -> float:
        return self.passed


class Database:
    """Committed facts, in the order they were committed, and the faults that are still to come."""

    def __init__(self, ahead: Sequence[str | None] = ()) -> None:
        self.facts: list[str] = []
        self.batches: list[list[str]] = []
        self.most_at_once = 1000  # rows that one statement writes before its time is over
        self.watch = Watch()
        self.commit_takes = 0.0
        self._faults: Iterator[str | None] = iter(ahead)

    def fault(self) -> str | None:
        return next(self._faults, None)


class FakeSession:
    """Buffers what is written in a transaction; ``commit`` makes it so, or fails in the way that is due."""

    usable = True
    in_transaction = True

    def __init__(self, database: Database) -> None:
        self._database = database
        self._written: list[str] = []
        self._open = False
        self._due: str | None = None

    async def begin(self, isolation: str | None = None, *, with_next: bool = False) -> None:
        assert not self._open
        self._due = self._database.fault()
        if self._due == "lost at begin":
            raise ConnectionLost("lost")
        self._open, self._written = True, []

    async def execute(self, sql: str, args: Sequence[Any]) -> int:
        return len(await self.fetch(sql, args))

    async def fetch(self, sql: str, args: Sequence[Any]) -> list[dict[str, Any]]:
        if not self._open:  # a lone statement commits by itself
            self._due = self._database.fault()
            self._written = []
        if self._due == "deadlock":
            raise Retryable("deadlock")
        if self._due == "broken off" or len(args) > self._database.most_at_once:
            raise BrokenOff("its time was over")
        if "poison" in str(args):
            raise QueryFailed("poison")
        self._written += [key for key in args if key not in self._database.facts]
        if not self._open:
            self._finish()
        return []

    async def commit(self) -> None:
        assert self._open
        self._open = False
        self._finish()

    async def rollback(self) -> None:
        self._open = False

    async def close(self) -> None:
        self._open = False

    def _finish(self) -> None:
        self._database.watch.passed += self._database.commit_takes + 5e-6 * len(self._written)
        if self._due in {"lost", "lost at begin"}:
            raise ConnectionLost("lost")
        if self._due != "unknown, not written":
            self._database.facts += self._written
            self._database.batches.append(self._written)
        if self._due is not None and self._due.startswith("unknown"):
            raise UnknownCommit("unknown")


class FakeLane:
    """Runs nothing by itself: the test calls ``drain``."""

    def __init__(self, database: Database, *, overlaps: bool) -> None:
        self._database = database
        self.overlaps = overlaps
        self.can_go_back = False
        self.leads_to: str | None = "one"
        self.pauses = 0
        self.waited: list[bool] = []

    def start(self, drain: Any, give_up: Any) -> None: ...

    async def connect(self) -> None: ...

    def wake(self) -> None: ...

    async def session(self) -> FakeSession:
        return FakeSession(self._database)

    async def server(self, session: Session) -> str | None:
        return self.leads_to

    def wait_for_disk(self, waits: bool) -> None:
        self.waited.append(waits)

    async def pause(self, failures: int) -> None:
        self.pauses += 1

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        return await work

    def hurry(self) -> None: ...

    def turn(self) -> None: ...

    def on_loop(self, call: Callable[[], None], *, later: bool) -> None:
        call()

    async def stop(self) -> None: ...


class Fact:
    """A kind whose row is its key; a key that begins with "poison" fails whatever stands beside it."""

    def __init__(self, database: Database, name: str = "fact", *, one_statement: bool = True) -> None:
        self.name = name
        self.one_statement = one_statement
        self._database = database
        self.asked: Callable[[], None] = lambda: None

    async def apply(self, transaction: Transaction, rows: Sequence[tuple[Any, ...]]) -> Sequence[str]:
        await transaction.execute("write " + "?, " * len(rows), *(key for (key,) in rows))
        return [f"{self.name} {key}" for (key,) in rows]

    async def recall(self, transaction: Transaction, rows: Sequence[tuple[Any, ...]]) -> Sequence[str | None]:
        self.asked()
        return [f"{self.name} {key}" if key in self._database.facts else None for (key,) in rows]


class OwnFact(Fact):
    """A kind whose rows nobody else deletes, save those that begin with "shared"."""

    async def stands(self, transaction: Transaction, rows: Sequence[tuple[Any, ...]]) -> Sequence[bool | None]:
        found = await self.recall(transaction, rows)
        return [
            (None if key.startswith("shared") else False) if fact is None else True
            for (key,), fact in zip(rows, found, strict=True)
        ]


class Found(Unwritten):
    """What a kind says of a row for which nothing was written."""


class FoundFact(Fact):
    """A kind that finds that everything is there already."""

    async def apply(self, transaction: Transaction, rows: Sequence[tuple[Any, ...]]) -> Sequence[Any]:
        return [Found() for _ in rows]


class Scene:
    """A committer over the fake, and what became of each key."""

    def __init__(self, ahead: Sequence[str | None] = (), *, lone: bool = True, overlaps: bool = False) -> None:
        self.database = Database(ahead)
        self.mailbox = Mailbox(most_operations=1000, most_bytes=10**9)
        self.lane = FakeLane(self.database, overlaps=overlaps)
        self.losses = 0
        self.committer = Committer(self.mailbox, self.lane, DialectName.SQLITE, self.database.watch, self.lose)
        self.kinds = [Fact(self.database, name, one_statement=lone) for name in ("one", "two")]
        self.waiters: dict[str, ThreadWaiter] = {}

    def lose(self) -> None:
        self.losses += 1

    def put(self, key: str, kind: int = 0) -> None:
        self.waiters[key] = ThreadWaiter()
        self.mailbox.put(Operation(self.kinds[kind], (key,), self.waiters[key], 1))

    def drain(self) -> None:
        while run_sync(self.committer.drain()) or self.mailbox.waiting:  # a lane is woken for what comes later
            pass

    def outcome(self, key: str) -> Any:
        try:
            return self.waiters[key].wait(0)
        except Exception as error:  # noqa: BLE001 -- to be looked at by the test
            return error


@pytest.mark.parametrize("lone", [True, False])
@pytest.mark.parametrize("size", range(1, 17))
def test_poison_at_every_place_fails_alone_and_order_is_kept(size: int, lone: bool) -> None:
    for place in range(size):
        scene = Scene(lone=lone)
        keys = [f"k{number:02}" if number != place else "poison" for number in range(size)]
        for key in keys:
            scene.put(key)
        scene.drain()
        assert scene.database.facts == [key for key in keys if key != "poison"]
        assert isinstance(scene.outcome("poison"), QueryFailed)
        assert all(scene.outcome(key) == f"one {key}" for key in keys if key != "poison")
        assert scene.mailbox.unsettled == 0


@pytest.mark.parametrize("poisons", [2, 3, 5, 16])
def test_several_poisons_fail_alone_and_order_is_kept(poisons: int) -> None:
    for places in itertools.islice(itertools.combinations(range(16), poisons), 0, None, 37):
        scene = Scene(lone=False)
        keys = [f"poison{number:02}" if number in places else f"k{number:02}" for number in range(16)]
        for key in keys:
            scene.put(key)
        scene.drain()
        assert scene.database.facts == [key for key in keys if not key.startswith("poison")]
        assert all(isinstance(scene.outcome(key), QueryFailed) for key in keys if key.startswith("poison"))


class FleetingFact(Fact, Fleeting):
    """A kind whose rows may be lost with the machine."""


def test_batch_waits_for_the_disk_unless_all_of_it_is_fleeting() -> None:
    scene = Scene()
    scene.kinds[1] = FleetingFact(scene.database, "fleeting")
    for keys in (["a"], ["b", "c"], ["d", "e"]):
        for key in keys:
            scene.put(key, kind=0 if key in "ac" else 1)
        scene.drain()
    assert scene.lane.waited == [True, True, False]
    assert scene.database.batches == [["a"], ["b", "c"], ["d", "e"]]


def test_later_batch_does_not_overtake_one_that_is_split() -> None:
    scene = Scene()
    for key in ("a", "poison", "b"):
        scene.put(key)
    faults.arm("pipeline.taken", lambda: scene.put("c"))  # while the first batch is under way
    try:
        scene.drain()
    finally:
        faults.disarm()
    assert scene.database.facts == ["a", "b", "c"]
    assert scene.database.batches == [["a"], ["b"], ["c"]]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("lone", [True, False])
def test_batch_met_by_one_fault_is_written_once(fault: str, lone: bool) -> None:
    scene = Scene([fault], lone=lone)
    for key in ("a", "b", "c"):
        scene.put(key)
    scene.drain()
    assert scene.database.facts == ["a", "b", "c"]
    assert [scene.outcome(key) for key in "abc"] == ["one a", "one b", "one c"]
    assert scene.lane.pauses <= 1


@pytest.mark.parametrize("lone", [True, False])
def test_batch_for_which_the_server_gives_no_time_is_written_in_smaller_ones(lone: bool) -> None:
    scene = Scene(lone=lone)
    scene.database.most_at_once = 2
    keys = [f"k{number:02}" for number in range(9)]
    for key in keys:
        scene.put(key)
    scene.drain()
    assert scene.database.facts == keys
    assert max(map(len, scene.database.batches)) == 2
    assert all(scene.outcome(key) == f"one {key}" for key in keys)


def _batches_of_crowds(scene: Scene, *crowds: int) -> list[int]:
    """Return how large the batches of crowds are, each of which comes when the one before has been written."""
    before = len(scene.database.batches)
    for crowd in crowds:
        for number in range(crowd):
            scene.put(f"key {scene.committer.commits} {number}")
        scene.drain()
    return [len(batch) for batch in scene.database.batches[before:]]


def _scene_of_crowds(*, overlaps: bool = True, lone: bool = True, commit_takes: float = 0.0) -> Scene:
    """Return a scene in which eight batches have been written."""
    scene = Scene(overlaps=overlaps, lone=lone)
    scene.database.commit_takes = commit_takes
    assert _batches_of_crowds(scene, *[65] * 8) == [65] * 8
    return scene


def test_crowd_that_comes_at_rest_is_halved_where_that_overlaps() -> None:
    assert _batches_of_crowds(_scene_of_crowds(), 65, 63, 130) == [32, 33, 63, 65, 65]
    assert _batches_of_crowds(_scene_of_crowds(overlaps=False), 65, 65) == [65, 65]


def test_crowd_that_comes_during_a_commit_is_written_whole() -> None:
    scene = _scene_of_crowds()
    for number in range(65):
        scene.put(f"key {number}")
    assert run_sync(scene.committer.drain())
    for number in range(70):
        scene.put(f"late {number}")
    scene.drain()
    assert [len(batch) for batch in scene.database.batches[8:]] == [32, 33 + 70]


def test_crowd_is_halved_only_where_batches_are_one_statement_each() -> None:
    assert _batches_of_crowds(_scene_of_crowds(lone=False), 65, 65) == [65, 65]
    scene = _scene_of_crowds()
    for kind in (0, 1):
        scene.put(f"of kind {kind}", kind)
    scene.drain()
    assert _batches_of_crowds(scene, *[65] * 8, 65) == [65] * 8 + [32, 33]


def test_crowd_is_halved_only_where_a_commit_is_not_a_longer_wait_than_the_crowd() -> None:
    scene = _scene_of_crowds(commit_takes=0.002)  # as long as 133 operations take
    assert _batches_of_crowds(scene, 130, 140) == [130, 70, 70]
    scene.database.commit_takes = 0.004  # which is known when the shorter ones are forgotten
    assert _batches_of_crowds(scene, 130, *[1] * 80, 140)[-2:] == [1, 140]
    scene.database.commit_takes = 0.001  # which is known at once
    assert _batches_of_crowds(scene, 1, 70) == [1, 35, 35]


@pytest.fixture
def connections() -> Scene:
    """Every batch has a connection of its own, and facts are nobody else's."""
    scene = Scene()
    scene.lane.can_go_back = True
    scene.kinds = [OwnFact(scene.database, "one"), Fact(scene.database, "two"), FoundFact(scene.database, "three")]
    return scene


def test_new_connection_that_has_all_that_was_acknowledged_goes_on(connections: Scene) -> None:
    for number in range(4):
        connections.put(f"key {number}", number % 2)
        connections.drain()
        connections.lane.leads_to = f"server {number}"
    assert connections.database.facts == ["key 0", "key 1", "key 2", "key 3"]
    assert connections.losses == 0


def test_database_that_lost_what_it_acknowledged_is_written_to_no_more_until_the_owner_says_so(
    connections: Scene,
) -> None:
    connections.put("lost")
    connections.drain()
    connections.database.facts.clear()
    for key in ("after", "later"):
        connections.put(key)
        connections.drain()
        assert isinstance(connections.outcome(key), WentBack)
    assert connections.losses == 1
    assert connections.database.facts == []
    connections.committer.readmit()
    connections.put("anew")
    connections.drain()
    assert connections.outcome("anew") == "one anew"
    assert connections.database.facts == ["anew"]


def test_loss_that_the_owner_has_seen_to_while_it_is_found_out_is_not_told_again(connections: Scene) -> None:
    connections.put("lost")
    connections.drain()
    connections.database.facts.clear()
    connections.kinds[0].asked = connections.committer.readmit  # as a beat has found out, at this very moment
    connections.put("anew")
    connections.drain()
    assert connections.outcome("anew") == "one anew"
    assert connections.losses == 0


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("server", ["one", "", "another"])
def test_what_others_may_have_deleted_was_lost_only_if_another_server_has_taken_over(
    connections: Scene, kind: int, server: str
) -> None:
    connections.put("shared", kind)
    connections.drain()
    connections.database.facts.clear()
    connections.lane.leads_to = server
    connections.put("next")
    connections.drain()
    assert connections.losses == (server == "another")
    assert connections.database.facts == ([] if server == "another" else ["next"])


@pytest.mark.parametrize(("left", "losses"), [(["shared"], 1), (["own"], 0), ([], 1)])
def test_one_row_tells_for_its_batch_and_one_that_was_lost_before_all(
    connections: Scene, left: list[str], losses: int
) -> None:
    for key in ("shared", "own"):
        connections.put(key)
    connections.drain()
    connections.database.facts[:] = left
    connections.lane.leads_to = "another"
    connections.put("next")
    connections.drain()
    assert connections.losses == losses


def test_batch_of_which_nothing_was_written_shows_nothing(connections: Scene) -> None:
    connections.put("lost")
    connections.drain()
    connections.put("found", 2)
    connections.drain()
    connections.database.facts.clear()
    connections.put("next")
    connections.drain()
    assert connections.losses == 1


def test_server_that_follows_another_is_looked_at_when_it_has_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it has not received until then may be on its way."""
    scene = Scene([None, None, None, "deadlock"])  # in place of the refusal of a server that takes no writes
    scene.lane.can_go_back = True
    told: list[int] = []

    async def pause(failures: int) -> None:
        told.append(scene.losses)
        scene.lane.leads_to = "another"

    monkeypatch.setattr(scene.lane, "pause", pause)
    scene.put("lost")
    scene.drain()
    scene.database.facts.clear()
    scene.lane.leads_to = None
    scene.put("next")
    scene.drain()
    assert told == [0]
    assert scene.losses == 1
    assert scene.database.facts == []


def test_nothing_is_told_before_the_commit() -> None:
    scene = Scene(["deadlock"] * 3)
    scene.put("a")
    seen: list[tuple[str, Any, list[str]]] = []

    def look(point: str) -> None:
        seen.append((point, type(scene.outcome("a")), list(scene.database.facts)))

    for point in ("pipeline.before_commit", "pipeline.after_commit"):
        faults.arm(point, partial(look, point), at=4 if point.endswith("before_commit") else 1)
    try:
        scene.drain()
    finally:
        faults.disarm()
    assert seen == [("pipeline.before_commit", TimeoutError, []), ("pipeline.after_commit", TimeoutError, ["a"])]
    assert scene.outcome("a") == "one a"


def test_stop_fails_what_has_no_outcome_and_says_how_much_is_known() -> None:
    scene = Scene()
    for key in ("a", "b"):
        scene.put(key)
    run_sync(scene.committer.stop())
    for key in ("a", "b"):
        outcome = scene.outcome(key)
        assert isinstance(outcome, PipelineClosed)
        assert "not confirmed" in str(outcome)
    assert scene.mailbox.unsettled == 0


moves = st.lists(
    st.one_of(st.tuples(st.sampled_from(["good", "poison"]), st.integers(0, 1)), st.just("drain")), max_size=40
)


@settings(deadline=None, max_examples=300)
@given(moves=moves, ahead=st.lists(st.sampled_from([*FAULTS, None]), max_size=30), lone=st.booleans())
def test_any_schedule_of_operations_and_faults_ends_as_the_model_says(
    moves: list[Any], ahead: list[str | None], lone: bool
) -> None:
    scene = Scene(ahead, lone=lone)
    good: list[list[str]] = [[], []]
    poisoned: list[str] = []
    for number, move in enumerate(moves):
        if move == "drain":
            run_sync(scene.committer.drain())
            continue
        what, kind = move
        key = f"{what}-{number}"
        scene.put(key, kind)
        (poisoned if what == "poison" else good[kind]).append(key)
    scene.drain()
    assert scene.mailbox.unsettled == 0
    assert len(scene.database.facts) == len(set(scene.database.facts))
    for kind, name in enumerate(("one", "two")):
        written = [key for key in scene.database.facts if key in good[kind]]
        assert written == good[kind]
        assert [scene.outcome(key) for key in good[kind]] == [f"{name} {key}" for key in good[kind]]
    assert all(isinstance(scene.outcome(key), QueryFailed) for key in poisoned)
