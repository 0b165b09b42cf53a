"""Every row of the protocol's run table, allowed and refused, through the code that does it, on every database.

The cases are made from ``core.transitions``: each event meets a run in each status, and no run at all. What is allowed
must leave the status and the columns that the protocol names; what is refused must leave the whole row as it was.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.core.transitions import Event, after, allowed
from holdfast.db import ConnectionManager
from holdfast.errors import Superseded, TransitionRefused, WorkflowNotFound
from holdfast.model.workflow import INTERNAL_QUEUE, WorkflowStatus
from holdfast.testing.run_rows import LONG_AGO, LONG_FROM_NOW, RunRows
from holdfast.workflows.facts import FinishRuns, HandOverRuns, RetryRuns
from holdfast.workflows.parking import Wait, parking_queries
from holdfast.workflows.parking.facts import PutAwayRuns

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.db.session import Row

CASES: list[tuple[Event, WorkflowStatus | None]] = list(itertools.product(Event, [*WorkflowStatus, None]))
NAMES = [f"{event.replace(' ', '_')}-{status or 'no_run'}" for event, status in CASES]


class Scene(RunRows):
    """One run in one status, and the code that changes runs."""

    def __init__(self, manager: ConnectionManager) -> None:
        super().__init__(manager)
        self.id = f"run-{secrets.token_hex(12)}"
        self.parking = parking_queries(manager.dialect, "holdfast")

    async def begin(self, status: WorkflowStatus, **columns: Any) -> None:
        """Put the run into the table."""
        await self.insert(status, self.id, steps=3, **columns)

    async def seen(self) -> Row | None:
        return await self.row(self.id)

    async def positions(self, run_id: str | None = None) -> list[int]:
        return [row["function_id"] for row in await self.steps(run_id or self.id)]

    async def claim(self, cap: int = 100) -> list[Row]:
        return await self.claim_from(self.id, cap)

    async def claim_unreadable(self) -> None:
        """Claim the run, and end it as an executor does that cannot read its arguments."""
        for row in await self.claim():
            finish = FinishRuns(self.queries)
            await self.write(
                finish, self.id, row["owner_xid"], "ERROR", None, '{"name": "unreadable"}', "portable_json"
            )

    async def claim_over_cap(self) -> None:
        """Claim the run, and give it up as an executor does that finds it over its cap."""
        for row in await self.claim(cap=2):
            await self.manager.execute(
                self.queries["run_exhausted"],
                id=self.id,
                token=row["owner_xid"],
                error='{"name": "exhausted"}',
                serialization="portable_json",
            )

    async def changed(self, changing: Awaitable[Any]) -> Exception | None:
        """Return why Control refused the run, or None."""
        changes = await changing
        assert [*changes.changed, *changes.refused] == [self.id]
        refusal: Exception | None = changes.refused.get(self.id)
        return refusal

    async def fork(self) -> Exception | None:
        try:
            await self.control.fork([self.id], 3, new_ids=[f"{self.id}-fork"])
        except WorkflowNotFound as error:
            return error
        return None


def doing(scene: Scene) -> dict[Event, Callable[[], Awaitable[Any]]]:
    """Return how each event is done: by the engine's own queries and kinds, and by Control."""
    queries, run_id, token, control = scene.queries, scene.id, scene.token(scene.id), scene.control
    execute, manager = scene.write, scene.manager
    gone = {"incarnation": f"gone-{run_id}", "most": 10, "internal_queue": INTERNAL_QUEUE}
    return {
        Event.BECOME_DUE: lambda: manager.execute(scene.queues["runs_due"], most=500),
        Event.SET_DELAY: lambda: scene.changed(control.set_delay([run_id], LONG_FROM_NOW, delay_ms=None)),
        Event.CLAIM: scene.claim,
        Event.CLAIM_UNREADABLE: scene.claim_unreadable,
        Event.CLAIM_OVER_CAP: scene.claim_over_cap,
        Event.FINISH: lambda: execute(FinishRuns(queries), run_id, token, "SUCCESS", "2", None, "portable_json"),
        Event.FAIL: lambda: execute(FinishRuns(queries), run_id, token, "ERROR", None, "{}", "portable_json"),
        Event.PUT_AWAY: lambda: execute(
            PutAwayRuns(queries, scene.parking), run_id, token, LONG_FROM_NOW, "sleep", Wait(results=("another",))
        ),
        Event.RETRY: lambda: execute(RetryRuns(queries), run_id, token, 2, 1000),
        Event.RELEASE: lambda: manager.execute(queries["runs_release"], **gone),
        Event.HAND_OVER: lambda: execute(HandOverRuns(queries), run_id, token),
        Event.CANCEL: lambda: scene.changed(control.cancel([run_id])),
        Event.RESUME: lambda: scene.changed(control.resume([run_id])),
        Event.REWIND: lambda: scene.changed(control.rewind([run_id], 3)),
        Event.FORK: scene.fork,
        Event.DELETE: lambda: scene.changed(control.delete([run_id])),
    }


# The columns that change in the same statement, as the protocol names them. What stands here as a function is asked.
NO_TOKEN = {"owner_xid": None, "incarnation": None}
NOW: Callable[[Any], bool] = lambda value: value > LONG_AGO  # noqa: E731 -- one word for a condition
COLUMNS: dict[Event, dict[str, Any]] = {
    Event.BECOME_DUE: {"owner_xid": None},
    Event.SET_DELAY: {"delay_until_epoch_ms": LONG_FROM_NOW, "owner_xid": None},
    Event.CLAIM: {
        "owner_xid": lambda token: token.startswith("claim-"),
        "incarnation": "claimer",
        "started_at_epoch_ms": LONG_AGO,
        "workflow_deadline_epoch_ms": LONG_FROM_NOW,
        "recovery_attempts": 3,
        "executions": 2,
    },
    Event.CLAIM_UNREADABLE: {"error": lambda text: "unreadable" in text, "completed_at": NOW, "deduplication_id": None},
    Event.CLAIM_OVER_CAP: {
        "recovery_attempts": 3,
        "error": lambda text: "exhausted" in text,
        "completed_at": NOW,
        "deduplication_id": None,
    },
    Event.FINISH: {"output": "2", "error": None, "completed_at": NOW, "deduplication_id": None},
    Event.FAIL: {"output": None, "error": "{}", "completed_at": NOW, "deduplication_id": None},
    Event.PUT_AWAY: NO_TOKEN | {"wait_kind": "sleep", "delay_until_epoch_ms": LONG_FROM_NOW},
    Event.RETRY: NO_TOKEN | {"retries": 2, "generation": 2, "delay_until_epoch_ms": NOW},
    Event.RELEASE: NO_TOKEN | {"recovery_attempts": 4},
    Event.HAND_OVER: NO_TOKEN | {"recovery_attempts": 3},
    Event.CANCEL: NO_TOKEN | {"queue_name": None, "deduplication_id": None, "completed_at": NOW, "generation": 1},
    Event.RESUME: NO_TOKEN
    | {
        "recovery_attempts": 0,
        "retries": 1,
        "generation": 1,
        "executions": 1,
        "workflow_deadline_epoch_ms": None,
        "started_at_epoch_ms": LONG_AGO,
        "queue_name": INTERNAL_QUEUE,
        "completed_at": None,
        "error": None,
        "output_serialization": None,
    },
    Event.REWIND: NO_TOKEN
    | {
        "generation": 2,
        "recovery_attempts": 0,
        "retries": 0,
        "executions": 1,
        "workflow_deadline_epoch_ms": None,
        "started_at_epoch_ms": None,
        "completed_at": None,
        "output": None,
        "error": None,
        "output_serialization": None,
        "queue_name": INTERNAL_QUEUE,
    },
    Event.FORK: {"was_forked_from": True},
    Event.DELETE: {},
}
STEPS_LEFT = {Event.REWIND: [1, 2], Event.RETRY: [1], Event.DELETE: []}
BY_CONTROL = {Event.SET_DELAY, Event.CANCEL, Event.RESUME, Event.REWIND, Event.FORK, Event.DELETE}
BY_TOKEN = {Event.FINISH, Event.FAIL, Event.RETRY, Event.PUT_AWAY}


def check_columns(row: Row, wanted: dict[str, Any]) -> None:
    for column, value in wanted.items():
        assert value(row[column]) if callable(value) else row[column] == value, f"{column} is {row[column]!r}"


def check_refusal(said: Any, scene: Scene, event: Event, status: WorkflowStatus | None) -> None:
    if event in BY_CONTROL and status is None:
        assert isinstance(said, WorkflowNotFound)
    elif event in BY_CONTROL:
        assert isinstance(said, TransitionRefused)
        assert (said.workflow_id, said.status, said.event) == (scene.id, status, event)
        told = f"{event.capitalize()} is refused for run {scene.id}: it is {status}, and to {event} it must be "
        assert str(said).startswith(told)
    elif event in BY_TOKEN and (status is None or not status.has_ended):
        assert isinstance(said, Superseded)


async def check_fork(scene: Scene) -> None:
    """A fork is a new run that waits, with the history below the step and nothing of the original's ownership."""
    fork = await scene.row(f"{scene.id}-fork")
    assert fork is not None
    wanted = NO_TOKEN | {"status": "ENQUEUED", "forked_from": scene.id, "queue_name": INTERNAL_QUEUE, "executions": 1}
    check_columns(fork, wanted | {"generation": 0, "recovery_attempts": 0, "workflow_deadline_epoch_ms": None})
    check_columns(fork, {"inputs": "{}", "name": scene.id, "workflow_timeout_ms": 60_000, "started_at_epoch_ms": None})
    assert await scene.positions(fork["workflow_uuid"]) == [1, 2]


@pytest.mark.parametrize(("event", "status"), CASES, ids=NAMES)
def test_run_table_is_what_the_database_does(migrated_url: str, event: Event, status: WorkflowStatus | None) -> None:
    async def play() -> None:
        async with ConnectionManager(migrated_url) as manager:
            scene = Scene(manager)
            if status is not None:
                await scene.begin(status)
            before = await scene.seen()
            said = await doing(scene)[event]()
            found = await scene.seen()
            if status is None or not allowed(status, event):
                check_refusal(said, scene, event, status)
                assert found == before
                assert await scene.positions() == ([] if status is None else [1, 2, 3])
                return
            assert (None if found is None else found["status"]) == after(status, event)
            assert await scene.positions() == STEPS_LEFT.get(event, [1, 2, 3])
            if found is not None and before is not None:
                check_columns(found, COLUMNS[event])
                assert found["creation_key"] == before["creation_key"]
            if event is Event.FORK:
                await check_fork(scene)
                assert found == {**(before or {}), "was_forked_from": True}

    asyncio.run(play())


def play_with(migrated_url: str, scene: Callable[[Scene], Awaitable[None]]) -> None:
    async def play() -> None:
        async with ConnectionManager(migrated_url) as manager:
            await scene(Scene(manager))

    asyncio.run(play())


def test_first_claim_sets_start_and_deadline_and_a_resumed_run_gets_none(migrated_url: str) -> None:
    async def play(scene: Scene) -> None:
        await scene.begin(
            WorkflowStatus.ENQUEUED, started_at_epoch_ms=None, workflow_deadline_epoch_ms=None, executions=0
        )
        [claimed] = await scene.claim()
        began = await scene.seen()
        assert began is not None
        assert began["workflow_deadline_epoch_ms"] == began["started_at_epoch_ms"] + 60_000
        assert claimed["workflow_deadline_epoch_ms"] == began["workflow_deadline_epoch_ms"]
        await scene.control.cancel([scene.id])
        await scene.control.resume([scene.id], queue_name=scene.id)
        [claimed] = await scene.claim()
        assert claimed["workflow_deadline_epoch_ms"] is None
        assert claimed["executions"] == 2

    play_with(migrated_url, play)


def test_run_that_never_began_gets_its_whole_time_after_a_resume(migrated_url: str) -> None:
    async def play(scene: Scene) -> None:
        await scene.begin(
            WorkflowStatus.ENQUEUED, started_at_epoch_ms=None, workflow_deadline_epoch_ms=LONG_AGO, executions=0
        )
        await scene.control.cancel([scene.id])
        await scene.control.resume([scene.id], queue_name=scene.id)
        [claimed] = await scene.claim()
        began = await scene.seen()
        assert began is not None
        assert claimed["workflow_deadline_epoch_ms"] == began["started_at_epoch_ms"] + 60_000

    play_with(migrated_url, play)


def test_delay_of_a_run_that_has_started_is_not_set(migrated_url: str) -> None:
    async def play(scene: Scene) -> None:
        await scene.begin(WorkflowStatus.DELAYED, executions=1)
        before = await scene.seen()
        said = await scene.changed(scene.control.set_delay([scene.id], None, delay_ms=5))
        assert isinstance(said, TransitionRefused)
        assert "it has started already" in str(said)
        assert await scene.seen() == before

    play_with(migrated_url, play)


def test_delay_in_the_past_makes_a_run_due_and_one_by_duration_counts_from_now(migrated_url: str) -> None:
    async def play(scene: Scene) -> None:
        await scene.begin(WorkflowStatus.DELAYED)
        assert await scene.changed(scene.control.set_delay([scene.id], None, delay_ms=3_600_000)) is None
        await scene.manager.execute(scene.queues["runs_due"], most=500)
        waiting = await scene.seen()
        assert waiting is not None
        assert waiting["status"] == "DELAYED"
        assert waiting["delay_until_epoch_ms"] == waiting["updated_at"] + 3_600_000
        assert await scene.changed(scene.control.set_delay([scene.id], LONG_AGO, delay_ms=None)) is None
        await scene.manager.execute(scene.queues["runs_due"], most=500)
        due = await scene.seen()
        assert due is not None
        assert due["status"] == "ENQUEUED"

    play_with(migrated_url, play)


def test_overdue_runs_are_cancelled_as_by_cancel_and_no_others(migrated_url: str) -> None:
    async def play(scene: Scene) -> None:
        overdue = {}
        for status in WorkflowStatus:
            late, early = Scene(scene.manager), Scene(scene.manager)
            await late.begin(status, workflow_deadline_epoch_ms=LONG_AGO)
            await early.begin(status, workflow_deadline_epoch_ms=LONG_FROM_NOW)
            overdue[status] = (late, early)
        cancelled = set(await scene.control.cancel_overdue())
        for status, (late, early) in overdue.items():
            row, other = await late.seen(), await early.seen()
            assert row is not None
            assert other is not None
            assert other["status"] == status
            assert (late.id in cancelled) is (not status.has_ended)
            assert row["status"] == (status if status.has_ended else "CANCELLED")
            if not status.has_ended:
                check_columns(row, COLUMNS[Event.CANCEL])
        assert not {late.id for late, _ in overdue.values()} & set(await scene.control.cancel_overdue())

    play_with(migrated_url, play)


def test_overdue_runs_are_bounded_and_the_longest_overdue_go_first(migrated_url: str) -> None:
    async def play(scene: Scene) -> None:
        scenes = [Scene(scene.manager) for _ in range(3)]
        for age, each in enumerate(scenes):
            await each.begin(WorkflowStatus.PENDING, workflow_deadline_epoch_ms=age + 1)
        cancelled = await scene.control.cancel_overdue(2)
        assert cancelled == [scenes[0].id, scenes[1].id]
        assert await scene.control.cancel_overdue(500) == [scenes[2].id]

    play_with(migrated_url, play)
