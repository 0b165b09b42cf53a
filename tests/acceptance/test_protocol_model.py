"""The run table against a small model: everything that may happen to a run, in any order.

Starts, claims, records, crashes, releases, hand-overs, retries and ends; and what is asked for from outside: cancel,
resume, rewind, fork and delete.

No process and no clock: the real facts and queries are driven through one connection, on every database.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from holdfast.db import ConnectionManager
from holdfast.db.migrations.migrator import Migrator
from holdfast.errors import Superseded, TransitionRefused, WorkflowNotFound
from holdfast.model.workflow import INTERNAL_QUEUE, WorkflowStatus
from holdfast.model.world import RealWorld
from holdfast.workflows.control import Control, control_queries
from holdfast.workflows.facts import (
    STARTED,
    Existing,
    FinishRuns,
    HandOverRuns,
    RecordSteps,
    RetryRuns,
    StartChildren,
    StartRuns,
)
from holdfast.workflows.queries import workflow_queries
from holdfast.workflows.queues import queue_queries

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

CAP = 3
RUNS = st.sampled_from(["a", "b", "c"])
EXECUTORS = st.sampled_from([0, 1])
IDENTITIES = st.sampled_from(["0", "1", "~0.0"])
POSITIONS = {"0": 1, "1": 2, "~0.0": 3, "child": 4}
CUTS = st.integers(1, 5)


@dataclass
class ModelRun:
    """What a run must look like."""

    status: str
    token: str | None
    incarnation: str | None
    attempts: int = 0
    executions: int = 1
    generation: int = 0
    parent: str | None = None
    records: dict[str, str | None] = field(default_factory=dict)

    def cut(self, position: int) -> None:
        """Keep what was recorded below *position*."""
        self.records = {each: token for each, token in self.records.items() if POSITIONS[each] < position}

    @property
    def has_ended(self) -> bool:
        return WorkflowStatus(self.status).has_ended


class Protocol(RuleBasedStateMachine):
    """Two executors over three runs. ``held`` is every token anybody was ever given: the stale ones are tried too."""

    url: str

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.manager = ConnectionManager(self.url)
        self.queries = workflow_queries(self.manager.dialect, "holdfast")
        self.queues = queue_queries(self.manager.dialect, "holdfast")
        self.record = RecordSteps(self.queries)
        self.record_progress = RecordSteps(self.queries, progress=True)
        self.finish = FinishRuns(self.queries)
        self.hand_over = HandOverRuns(self.queries)
        self.retry = RetryRuns(self.queries)
        self.control = Control(self.manager, control_queries(self.manager.dialect, "holdfast"), RealWorld())
        self.runs: dict[str, ModelRun] = {}
        self.held: list[tuple[str, str]] = []
        self.cuts: dict[str, int] = {}  # by token
        self.alive: list[str] = []
        self.made = 0

    @initialize()
    def open(self) -> None:
        self.do(Migrator(self.manager).migrate())
        for table in ("operation_outputs", "workflow_status", "executors"):
            with contextlib.suppress(LookupError):
                self.do(self.manager.execute(f"DELETE FROM {self.table(table)}"))
        for number in range(2):
            self.alive.append("")
            self.register(number)

    def teardown(self) -> None:
        self.do(self.manager.close())
        self.loop.close()

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    def table(self, name: str) -> str:
        return f"holdfast.{name}" if self.manager.dialect.value == "postgres" else name

    def fresh(self, what: str) -> str:
        self.made += 1
        return f"{what}-{self.made}"

    def apply(self, kind: Any, row: tuple[Any, ...]) -> Any:
        [outcome] = self.do(self.manager.run(lambda transaction: kind.apply(transaction, [row])))
        return outcome

    def register(self, executor: int) -> None:
        self.alive[executor] = self.fresh("incarnation")
        self.do(
            self.manager.execute(
                self.queries["executor_register"],
                incarnation=self.alive[executor],
                executor_id="local",
                hostname="h",
                pid=1,
                application_version="v",
                queues="[]",
                lease_ms=1000,
            )
        )

    def starter(self, executor: int) -> StartRuns:
        return StartRuns(self.queries, application_id="test", executor_id="local", incarnation=self.alive[executor])

    def start_row(self, run_id: str, token: str, parent: str | None = None) -> tuple[Any, ...]:
        return (run_id, "f", None, None, "[]", "json", token, parent, "mark", *[None] * 6, "v")

    def step_row(self, run_id: str, token: str, identity: str) -> tuple[Any, ...]:
        return (run_id, token, POSITIONS[identity], "step", identity, "mark", f'"{token}"', None, None, "json", 0)

    def writer(self, run_id: str, token: str) -> ModelRun | None:
        """Return the run if it is this token's, and has not ended."""
        run = self.owner(run_id, token)
        return run if run is not None and run.status == "PENDING" else None

    def owner(self, run_id: str, token: str) -> ModelRun | None:
        """Return the run if *token* holds it, whatever its status."""
        run = self.runs.get(run_id)
        return run if run is not None and run.token == token else None

    @rule(run_id=RUNS, executor=EXECUTORS)
    def start(self, run_id: str, executor: int) -> None:
        token = self.fresh("token")
        outcome = self.apply(self.starter(executor), self.start_row(run_id, token))
        if run_id in self.runs:
            assert isinstance(outcome, Existing)
            assert outcome.row["status"] == self.runs[run_id].status
            return
        assert outcome is STARTED
        self.runs[run_id] = ModelRun("PENDING", token, self.alive[executor])
        self.held.append((run_id, token))

    @rule(data=st.data(), identity=IDENTITIES, progress=st.booleans())
    def record_step(self, data: st.DataObject, identity: str, progress: bool) -> None:
        if not self.held:
            return
        run_id, token = data.draw(st.sampled_from(self.held))
        kind = self.record_progress if progress else self.record
        outcome = self.apply(kind, self.step_row(run_id, token, identity))
        run = self.writer(run_id, token)
        if run is not None and run.records.setdefault(identity, token) == token:
            assert outcome is True
        elif run is not None:
            assert isinstance(outcome, Exception)  # recorded by an earlier execution: a replay would have found it
        elif run_id in self.runs and self.runs[run_id].records.get(identity) == token:
            assert outcome is True  # it was recorded while the token held: asking again changes nothing
        else:
            assert isinstance(outcome, Superseded)
        owned = self.owner(run_id, token)
        if owned is not None and progress:
            owned.attempts = 0

    @rule(data=st.data(), executor=EXECUTORS)
    def start_child(self, data: st.DataObject, executor: int) -> None:
        if not self.held:
            return
        run_id, token = data.draw(st.sampled_from(self.held))
        if run_id.endswith("child") or run_id not in self.runs:
            return
        child, child_token = f"{run_id}-child", self.fresh("token")
        kind = StartChildren(self.record, self.starter(executor))
        row = (self.step_row(run_id, token, "child"), self.start_row(child, child_token, run_id))
        outcome = self.apply(kind, row)
        run, there = self.writer(run_id, token), self.runs.get(run_id)
        if run is None and (there is None or there.records.get("child") != token):
            assert isinstance(outcome, Superseded)
        elif run is not None and "child" not in run.records:
            run.records["child"] = token
            if child in self.runs:
                assert isinstance(outcome, Existing)
                return
            assert outcome is STARTED
            self.runs[child] = ModelRun("PENDING", child_token, self.alive[executor], parent=run_id)
            self.held.append((child, child_token))
        elif child in self.runs or isinstance(outcome, Exception):
            assert outcome is not STARTED
        else:  # the record is this token's own, and the child that it tells of was deleted: it is started again
            assert outcome is STARTED
            self.runs[child] = ModelRun("PENDING", child_token, self.alive[executor], parent=run_id)
            self.held.append((child, child_token))

    @rule(data=st.data(), status=st.sampled_from(["SUCCESS", "ERROR"]))
    def end(self, data: st.DataObject, status: str) -> None:
        if not self.held:
            return
        run_id, token = data.draw(st.sampled_from(self.held))
        outcome = self.apply(self.finish, (run_id, token, status, "1", None, "json"))
        run = self.owner(run_id, token)
        if run is None or run.status == "MAX_RECOVERY_ATTEMPTS_EXCEEDED":
            assert isinstance(outcome, Superseded) or run is not None
        else:
            assert outcome is True
            if run.status == "PENDING":
                run.status = status

    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        if not self.held:
            return
        run_id, token = data.draw(st.sampled_from(self.held))
        outcome = self.apply(self.hand_over, (run_id, token))
        run = self.owner(run_id, token)
        if run is not None and run.status == "PENDING":
            assert outcome is True
            run.status, run.token, run.incarnation = "ENQUEUED", None, None

    @rule(data=st.data(), cut=CUTS)
    def try_again(self, data: st.DataObject, cut: int) -> None:
        if not self.held:
            return
        run_id, token = data.draw(st.sampled_from(self.held))
        cut = self.cuts.setdefault(token, cut)  # who asks again asks for the same
        outcome = self.apply(self.retry, (run_id, token, cut, 0))
        run = self.owner(run_id, token)
        if run is not None and run.status == "PENDING":
            assert outcome is True
            run.status, run.token, run.incarnation = "DELAYED", None, None
            run.generation += 1
            run.cut(cut)

    @rule()
    def become_due(self) -> None:
        self.do(self.manager.execute(self.queues["runs_due"], most=500))
        for run in self.runs.values():
            if run.status == "DELAYED":
                run.status = "ENQUEUED"

    def asked(self, work: Coroutine[Any, Any, Any], run_id: str, *, may: bool) -> bool:
        """Have something done to one run; check that it was done if it may be, and refused with the reason if not."""
        changes = self.do(work)
        error = changes.refused.get(run_id)
        assert (error is None) == may == (changes.changed == (run_id,))
        if run_id not in self.runs:
            assert isinstance(error, WorkflowNotFound)
        elif error is not None:
            assert isinstance(error, TransitionRefused)
            assert error.status == self.runs[run_id].status
        return may

    @rule(data=st.data(), children=st.booleans())
    def cancel(self, data: st.DataObject, children: bool) -> None:
        run_id = data.draw(st.sampled_from([*self.runs, "nobody"]))
        run = self.runs.get(run_id)
        may = run is not None and not run.has_ended
        if self.asked(self.control.cancel([run_id], children=children), run_id, may=may):
            below = [each for each, other in self.runs.items() if other.parent == run_id] if children else []
            for each in [run_id, *below]:
                if not self.runs[each].has_ended:
                    self.runs[each].status, self.runs[each].token = "CANCELLED", None
                    self.runs[each].incarnation = None

    @rule(data=st.data())
    def resume(self, data: st.DataObject) -> None:
        run_id = data.draw(st.sampled_from([*self.runs, "nobody"]))
        run = self.runs.get(run_id)
        may = run is not None and run.status in {"CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"}
        keys = self.cancel_keys()
        if self.asked(self.control.resume([run_id]), run_id, may=may):
            below = [
                each
                for each, other in self.runs.items()
                if other.parent == run_id and other.status == "CANCELLED" and keys[each] == keys[run_id]
                if self.runs[run_id].status == "CANCELLED"
            ]
            for each in [run_id, *below]:
                resumed = self.runs[each]
                resumed.status, resumed.token, resumed.incarnation, resumed.attempts = "ENQUEUED", None, None, 0

    def cancel_keys(self) -> dict[str, str | None]:
        rows = self.do(self.manager.fetch(f"SELECT workflow_uuid, cancel_key FROM {self.table('workflow_status')}"))
        return {row["workflow_uuid"]: row["cancel_key"] for row in rows}

    @rule(data=st.data(), cut=CUTS)
    def rewind(self, data: st.DataObject, cut: int) -> None:
        run_id = data.draw(st.sampled_from([*self.runs, "nobody"]))
        run = self.runs.get(run_id)
        if self.asked(self.control.rewind([run_id], cut), run_id, may=run is not None and run.has_ended):
            rewound = self.runs[run_id]
            rewound.status, rewound.token, rewound.incarnation, rewound.attempts = "ENQUEUED", None, None, 0
            rewound.generation += 1
            rewound.cut(cut)

    @rule(data=st.data(), cut=CUTS)
    def fork(self, data: st.DataObject, cut: int) -> None:
        if not self.runs or len(self.runs) > 8:
            return
        run_id = data.draw(st.sampled_from(list(self.runs)))
        new = self.fresh("fork")
        assert self.do(self.control.fork([run_id], cut, new_ids=[new])) == {run_id: new}
        copy = ModelRun("ENQUEUED", None, None, executions=int(cut > 1), records=dict(self.runs[run_id].records))
        copy.cut(cut)
        copy.records = dict.fromkeys(copy.records)
        self.runs[new] = copy

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        run_id = data.draw(st.sampled_from([*self.runs, "nobody"]))
        run = self.runs.get(run_id)
        parent = self.runs.get(run.parent or "") if run is not None else None
        may = run is not None and run.has_ended and (parent is None or parent.has_ended)
        if self.asked(self.control.delete([run_id]), run_id, may=may):
            del self.runs[run_id]

    @rule(executor=EXECUTORS, release=st.booleans())
    def crash(self, executor: int, release: bool) -> None:
        """The executor is gone and another comes; somebody releases its runs, now or never."""
        gone = self.alive[executor]
        self.do(self.manager.execute(self.queries["executor_remove"], incarnation=gone, beat_seq=0))
        self.register(executor)
        if release:
            self.release(gone)

    @rule()
    def sweep(self) -> None:
        rows = self.do(self.manager.fetch(self.queries["executors_see"], incarnation=""))
        gone = {row["incarnation"] for row in rows if row["beat_seq"] is None}
        owners = {run.incarnation for run in self.runs.values() if run.status == "PENDING"}
        assert gone == owners - set(self.alive)
        for incarnation in gone:
            self.release(incarnation)

    @rule(executor=EXECUTORS)
    def release_the_living(self, executor: int) -> None:
        self.release(self.alive[executor])

    def release(self, incarnation: str) -> None:
        named = {"incarnation": incarnation, "most": 100, "internal_queue": INTERNAL_QUEUE}
        released = self.do(self.manager.execute(self.queries["runs_release"], **named))
        expected = 0
        for run in self.runs.values():
            if run.status == "PENDING" and run.incarnation == incarnation and incarnation not in self.alive:
                run.status, run.token, run.incarnation = "ENQUEUED", None, None
                run.attempts += 1
                expected += 1
        assert released == expected

    @rule(executor=EXECUTORS, suspects=st.booleans(), most=st.integers(1, 3))
    def claim(self, executor: int, suspects: bool, most: int) -> None:
        claim = self.fresh("claim")
        rows = self.do(
            self.manager.fetch(
                self.queues["queue_claim"],
                unlimited=True,
                claim=claim,
                incarnation=self.alive[executor],
                executor_id="local",
                application_version="v",
                versions='["v"]',
                caps=f'{{"f": {CAP}}}',
                queue_name=INTERNAL_QUEUE,
                most=most,
                suspects=int(suspects),
            )
        )
        fitting = [
            run_id
            for run_id, run in self.runs.items()
            if run.status == "ENQUEUED" and (suspects or run.attempts * 2 < CAP or run.attempts > CAP)
        ]
        assert len(rows) == min(most, len(fitting))
        for row in rows:
            run_id, token = row["workflow_uuid"], row["owner_xid"]
            assert run_id in fitting
            run = self.runs[run_id]
            assert row["status"] == "PENDING"
            run.status = "PENDING"
            run.token, run.incarnation = token, self.alive[executor]
            run.executions += 1
            self.held.append((run_id, token))
            if run.attempts > CAP:
                self.give_up(run_id, token)

    def give_up(self, run_id: str, token: str) -> None:
        values = {"error": "{}", "serialization": "json"}
        query = self.queries["run_exhausted"]
        assert self.do(self.manager.execute(query, id=run_id, token=token, **values)) == 1
        assert self.do(self.manager.execute(query, id=run_id, token=token, **values)) == 0
        self.runs[run_id].status = "MAX_RECOVERY_ATTEMPTS_EXCEEDED"

    @invariant()
    def the_table_is_the_model(self) -> None:
        if not self.alive:
            return
        rows = self.do(self.manager.fetch(f"SELECT * FROM {self.table('workflow_status')}"))
        assert {
            row["workflow_uuid"]: (
                row["status"],
                row["owner_xid"],
                row["incarnation"],
                row["recovery_attempts"],
                row["executions"],
                row["generation"],
            )
            for row in rows
        } == {
            run_id: (run.status, run.token, run.incarnation, run.attempts, run.executions, run.generation)
            for run_id, run in self.runs.items()
        }
        steps = self.do(self.manager.fetch(f"SELECT * FROM {self.table('operation_outputs')}"))
        assert {(step["workflow_uuid"], step["identity"]): step["owner_xid"] for step in steps} == {
            (run_id, identity): token for run_id, run in self.runs.items() for identity, token in run.records.items()
        }


QUICK = {"sqlite": (12, 25), "postgres": (8, 25), "mariadb": (8, 25)}


@pytest.mark.parametrize("kind", list(QUICK))
def test_i2_i5_tokens_statuses_and_records_follow_the_run_table(
    kind: str, fresh_database: Callable[[str], str]
) -> None:
    examples, steps = QUICK[kind]
    _explore(fresh_database(kind), examples, steps)


@pytest.mark.soak
@pytest.mark.parametrize("kind", list(QUICK))
def test_i2_i5_tokens_statuses_and_records_follow_the_run_table_for_long(
    kind: str, fresh_database: Callable[[str], str]
) -> None:
    _explore(fresh_database(kind), 150, 60)


def _explore(url: str, examples: int, steps: int) -> None:
    machine = type("Explored", (Protocol,), {"url": url})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, Phase.shrink],
        ),
    )
