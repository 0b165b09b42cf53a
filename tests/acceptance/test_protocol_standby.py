"""I14: the primary is lost under load and a standby that lagged takes its place.

What the primary acknowledged and the standby had not received is lost; no engine can bring it back. Allowed, therefore:

- a step whose record was lost happens again, once more an execution;
- a run that had ended ends again, by the record that is left;
- a run that the standby never heard of is gone: its caller is told so (``WorkflowNotFound``).

Not allowed, and checked here:

- a run that the standby knows does not end, ends twice, or ends with another result;
- a step whose record the standby has happens again;
- an execution that began before the failover writes after it: what it stands on may be lost, so that the record would
  have holes, or rest on values that never were;
- an executor goes on under the incarnation whose beats were lost;
- anybody is stuck, or is told nothing.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from holdfast.testing.relay import Relay
from holdfast.testing.servers.standby import PostgresStandby
from holdfast.testing.stage import Stage
from holdfast.testing.workers import Worker, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.testing.nursery import Nursery
    from holdfast.testing.servers import PostgresServer

PROGRAM = Path(__file__).parent / "programs" / "marcher.py"
LEASE = 3.0
PACES = 25
PACE = 0.15
TOTAL = sum(range(PACES))


class Seen(NamedTuple):
    """What a server knows at one moment."""

    runs: dict[str, dict[str, Any]]
    steps: dict[tuple[str, str], dict[str, Any]]
    beats: dict[str, int]

    @classmethod
    def of(cls, scene: Stage) -> Seen:
        runs = scene.fetch("SELECT workflow_uuid, status, output, owner_xid, recovery_attempts FROM {runs}")
        steps = scene.fetch("SELECT workflow_uuid, identity, function_id, owner_xid FROM {steps}")
        beats = scene.fetch("SELECT incarnation, beat_seq FROM {executors}")
        return cls(
            {row["workflow_uuid"]: row for row in runs},
            {(row["workflow_uuid"], row["identity"]): row for row in steps},
            {row["incarnation"]: row["beat_seq"] for row in beats},
        )


class Pair:
    """A primary and its standby behind one address, looked at from behind it."""

    def __init__(self, primary: PostgresServer, ledger: Path, afterwards: ExitStack, nursery: Nursery) -> None:
        self.primary = primary
        self.standby = afterwards.enter_context(PostgresStandby(primary))
        self.relay = afterwards.enter_context(Relay(primary.port))
        self.front = Stage(PROGRAM, self.relay.url(primary.url), ledger, afterwards, nursery)
        self.before = Stage(PROGRAM, primary.url, ledger, afterwards, nursery)
        self.after = Stage(PROGRAM, self.standby.url, ledger, afterwards, nursery)

    def fail_over(self) -> tuple[Seen, Seen]:
        """Lose the primary; return what it had acknowledged, and what its successor has of it."""
        self.relay.cut()
        acknowledged = Seen.of(self.before)
        self.primary.kill()
        self.standby.promote()
        kept = Seen.of(self.after)
        return acknowledged, kept

    def let_in(self) -> None:
        """Turn the clients to the new primary."""
        self.relay.turn(self.standby.port)


@pytest.fixture
def pair(own_server: Callable[..., PostgresServer], tmp_path: Path, nursery: Nursery) -> Iterator[Pair]:
    with ExitStack() as afterwards:
        yield Pair(own_server("postgres"), tmp_path / "effects", afterwards, nursery)


def march(worker: Worker, *names: str, paces: int = PACES) -> list[str]:
    for name in names:
        worker.tell("run", "march", name, paces, PACE)
    return list(names)


def names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}-{number}" for number in range(count)]


def paces_of(scene: Stage, *run_ids: str) -> int:
    """Return how many steps the slowest of the runs has begun."""
    begun = dict.fromkeys(run_ids, 0)
    for effect in scene.ledger.all():
        if effect.run_id in begun and effect.what.startswith("pace"):
            begun[effect.run_id] += 1
    return min(begun.values())


def assert_something_was_lost(acknowledged: Seen, kept: Seen) -> None:
    """The test shows nothing unless runs, records, outcomes and beats were acknowledged and lost."""
    assert acknowledged.runs.keys() > kept.runs.keys()
    assert acknowledged.steps.keys() > kept.steps.keys()
    assert [run for run, row in kept.runs.items() if row["status"] != acknowledged.runs[run]["status"] == "SUCCESS"]
    assert all(kept.beats.get(who, -1) < beat for who, beat in acknowledged.beats.items())


def assert_one_voice(kept: Seen, end: Seen, known: list[str], paces: dict[str, int]) -> None:
    """Every record is whole, and what came after the failover was written by executions that began after it."""
    for run_id in known:
        row = end.runs[run_id]
        mine = sorted((step for key, step in end.steps.items() if key[0] == run_id), key=lambda s: s["function_id"])
        assert len(mine) == paces[run_id], f"{run_id} ended with {len(mine)} of {paces[run_id]} records"
        tokens = [step["owner_xid"] for step in mine]
        old = kept.runs[run_id]["owner_xid"] if run_id in kept.runs else None
        late = [step["identity"] for step in mine if (run_id, step["identity"]) not in kept.steps]
        by_old = [identity for identity in late if end.steps[run_id, identity]["owner_xid"] == old]
        assert not by_old, f"{run_id}: {by_old} were written after the failover by an execution from before it"
        assert tokens == sorted(tokens), f"{run_id}: a record stands on one that was made after it"
        if row != kept.runs.get(run_id):
            assert row["owner_xid"] != old, f"{run_id} was ended by an execution from before the failover"


def assert_not_done_again(kept: Seen, effects: list[tuple[str, str]]) -> None:
    """What the new primary knows as done is not done again."""
    assert effects
    assert not [key for key in effects if key in kept.steps]


def test_i14_a_lagging_standby_takes_over_and_every_run_it_knows_ends_once_by_its_record(
    pair: Pair, tmp_path: Path
) -> None:
    hold = tmp_path / "hold"  # no run gets to its end before the primary is lost, however busy the machine is
    hold.touch()
    settings = {"app": {"lease": LEASE}, "held_from": PACES - 8, "held_while": str(hold)}
    workers = [pair.front.ready(colour, **settings) for colour in ("async", "sync")]
    known = [name for worker in workers for name in march(worker, *names(f"known-{worker.pid}", 12))]
    brief = [name for worker in workers for name in march(worker, *names(f"brief-{worker.pid}", 4), paces=8)]
    until(lambda: paces_of(pair.front, *known, *brief) > 1)
    pair.standby.catch_up()
    pair.standby.fall_behind()

    workers.append(pair.front.ready("async", **settings))  # the standby never hears of this one
    unknown = [name for worker in workers for name in march(worker, *names(f"unknown-{worker.pid}", 4))]
    for worker in workers[:2]:
        for name in names(f"brief-{worker.pid}", 4):
            assert worker.hear("result", name)[2] == sum(range(8))
    until(lambda: paces_of(pair.front, *unknown) > 1)
    assert paces_of(pair.front, *known) < PACES - 4
    acknowledged, kept = pair.fail_over()
    hold.unlink()
    assert_something_was_lost(acknowledged, kept)
    assert kept.runs.keys() == set(known) | set(brief)
    happened = len(pair.front.ledger.all())
    later = [name for worker in workers for name in march(worker, *names(f"later-{worker.pid}", 2), paces=3)]
    pair.let_in()

    for worker in workers:
        for name in [name for name in [*known, *later] if f"-{worker.pid}-" in name]:
            paces = 3 if name in later else PACES
            assert worker.hear("result", name)[2] == sum(range(paces)), name
        for name in [name for name in unknown if f"-{worker.pid}-" in name]:
            # One whose start had not been acknowledged when the primary was lost is simply started on its successor.
            assert worker.hear("result", name)[2] in {"WorkflowNotFound", TOTAL}, name
    until(pair.after.all_ended)
    end = Seen.of(pair.after)
    lengths = dict.fromkeys(known, PACES) | dict.fromkeys(brief, 8) | dict.fromkeys(later, 3)
    assert end.runs.keys() >= lengths.keys()
    assert not end.beats.keys() & acknowledged.beats.keys()  # everybody has registered anew
    assert len(end.beats) == len(workers)
    assert {row["recovery_attempts"] for row in end.runs.values()} == {0}
    effects = [(effect.run_id, effect.what.partition("@")[2]) for effect in pair.front.ledger.all()[happened:]]
    assert_not_done_again(kept, effects)
    assert_one_voice(kept, end, list(lengths), lengths)
    assert not [line for worker in workers for line in worker.heard("failed")]


def test_i14_records_lost_between_two_beats_leave_no_holes(pair: Pair) -> None:
    """The lag was shorter than the time from one beat to the next: no beat is lost, but records and outcomes are."""
    worker = pair.front.ready("async", app={"lease": 120.0})
    known = march(worker, *names("known", 8))
    until(lambda: paces_of(pair.front, *known) > 1)
    pair.standby.catch_up()
    pair.standby.fall_behind()
    until(lambda: paces_of(pair.front, *known) > 6)
    acknowledged, kept = pair.fail_over()
    assert acknowledged.beats == kept.beats
    assert acknowledged.steps.keys() > kept.steps.keys()
    happened = len(pair.front.ledger.all())
    pair.let_in()

    for name in known:
        assert worker.hear("result", name)[2] == TOTAL
    until(pair.after.all_ended)
    effects = [(effect.run_id, effect.what.partition("@")[2]) for effect in pair.front.ledger.all()[happened:]]
    assert_not_done_again(kept, effects)
    assert_one_voice(kept, Seen.of(pair.after), known, dict.fromkeys(known, PACES))


def test_i14_records_that_were_lost_leave_no_holes_though_nothing_is_left_of_what_was_written_last(
    pair: Pair, tmp_path: Path
) -> None:
    """The last write was of a run that the standby never heard of: it might as well have been deleted there."""
    hold, before = tmp_path / "hold", 7
    hold.touch()
    worker = pair.front.ready("async", app={"lease": 120.0}, held_from=before, held_while=str(hold))
    [known] = march(worker, "known")
    until(lambda: paces_of(pair.front, known) > 1)
    pair.standby.catch_up()
    pair.standby.fall_behind()
    until(lambda: len([key for key in Seen.of(pair.before).steps if key[0] == known]) == before)
    march(worker, "unknown", paces=2)
    assert worker.hear("result", "unknown")[2] == 1
    acknowledged, kept = pair.fail_over()
    assert acknowledged.beats == kept.beats
    assert kept.runs.keys() == {known}
    assert len(kept.steps) < before
    happened = len(pair.front.ledger.all())
    hold.unlink()
    pair.let_in()

    assert worker.hear("result", known)[2] == TOTAL
    until(pair.after.all_ended)
    effects = [(effect.run_id, effect.what.partition("@")[2]) for effect in pair.front.ledger.all()[happened:]]
    assert_not_done_again(kept, effects)
    assert_one_voice(kept, Seen.of(pair.after), [known], {known: PACES})
    assert "Another server has taken the database's place" in worker.log()
