"""Control over every database: families of runs, many at once, what is copied and what is left, and the plans."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, cast

import pytest

from holdfast import faults
from holdfast.db import ConnectionManager
from holdfast.db.migrations.migrator import Migrator
from holdfast.errors import (
    CannotSerialize,
    ConfigurationError,
    TransitionRefused,
    WorkflowConflict,
    WorkflowNotFound,
)
from holdfast.model.workflow import INTERNAL_QUEUE, WorkflowStatus
from holdfast.testing.run_rows import LONG_AGO, RunRows
from holdfast.workflows.control import control_queries

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Play = Callable[[Callable[[RunRows], Awaitable[None]]], None]

KINDS = ["sqlite", "postgres", "mariadb"]
ENDED = [status for status in WorkflowStatus if status.has_ended]


@pytest.fixture(params=KINDS)
def play(request: pytest.FixtureRequest, fresh_database: Callable[[str], str]) -> Play:
    """Call with what is to be done with the runs of an empty database."""
    url = fresh_database(request.param)

    def run(scene: Callable[[RunRows], Awaitable[None]]) -> None:
        async def opened() -> None:
            async with ConnectionManager(url) as manager:
                await Migrator(manager).migrate()
                await scene(RunRows(manager))

        asyncio.run(opened())

    return run


async def family(rows: RunRows, *, middle: WorkflowStatus, last: WorkflowStatus) -> dict[str, str]:
    """Make a parent with a running child, and with one in *middle* that has a child in *last*; return ids by name."""
    parent = await rows.insert(WorkflowStatus.PENDING)
    first = await rows.insert(WorkflowStatus.PENDING, f"{parent}-0", parent_workflow_id=parent)
    second = await rows.insert(middle, f"{parent}-1", parent_workflow_id=parent)
    third = await rows.insert(last, f"{parent}-1-0", parent_workflow_id=second, steps=1)
    return {"parent": parent, "first": first, "second": second, "third": third}


async def statuses(rows: RunRows, ids: dict[str, str]) -> dict[str, str | None]:
    return {name: await rows.status(each) for name, each in ids.items()}


async def note(rows: RunRows, run_id: str) -> None:
    """Change a run by something else than what brought it where it is."""
    await rows.control.update_attributes([run_id], {"noted": True})


def test_resume_brings_back_what_was_cancelled_together_whatever_was_asked_since(play: Play) -> None:
    async def scene(rows: RunRows) -> None:
        ids = await family(rows, middle=WorkflowStatus.ENQUEUED, last=WorkflowStatus.DELAYED)
        await rows.control.cancel([ids["first"]])  # by itself, before
        await rows.control.cancel([ids["parent"]])
        for each in ids.values():
            await note(rows, each)
        await rows.control.resume([ids["parent"]])
        assert await statuses(rows, ids) == {
            "parent": "ENQUEUED",
            "first": "CANCELLED",
            "second": "ENQUEUED",
            "third": "ENQUEUED",
        }

    play(scene)


def test_resume_brings_back_children_whose_time_was_over_with_their_parents(play: Play) -> None:
    async def scene(rows: RunRows) -> None:
        parent = await rows.insert(workflow_deadline_epoch_ms=LONG_AGO)
        own: dict[str, Any] = {"parent_workflow_id": parent, "workflow_deadline_epoch_ms": LONG_AGO - 1}
        early = await rows.insert(WorkflowStatus.PENDING, f"{parent}-early", **own)
        with_it: dict[str, Any] = {"parent_workflow_id": parent, "workflow_deadline_epoch_ms": LONG_AGO}
        children = [await rows.insert(WorkflowStatus.PENDING, f"{parent}-{n}", **with_it) for n in range(5)]
        while await rows.control.cancel_overdue(2):  # in several batches, by whoever comes first
            pass
        await note(rows, parent)
        assert {await rows.status(each) for each in (parent, early, *children)} == {"CANCELLED"}
        await rows.control.resume([parent])
        assert {await rows.status(each) for each in (parent, *children)} == {"ENQUEUED"}
        assert await rows.status(early) == "CANCELLED"  # it had less time than its parent

    play(scene)


def test_cancel_goes_down_through_children_that_have_ended(play: Play) -> None:
    async def scene(rows: RunRows) -> None:
        ids = await family(rows, middle=WorkflowStatus.SUCCESS, last=WorkflowStatus.DELAYED)
        bystander = await rows.insert()
        changes = await rows.control.cancel([ids["parent"]])
        assert (changes.changed, dict(changes.refused)) == ((ids["parent"],), {})
        assert await statuses(rows, ids) == {
            "parent": "CANCELLED",
            "first": "CANCELLED",
            "second": "SUCCESS",
            "third": "CANCELLED",
        }
        assert await rows.status(bystander) == "PENDING"

    play(scene)


def test_cancel_without_children_leaves_them(play: Play) -> None:
    async def scene(rows: RunRows) -> None:
        ids = await family(rows, middle=WorkflowStatus.ENQUEUED, last=WorkflowStatus.PENDING)
        await rows.control.cancel([ids["parent"]], children=False)
        found = await statuses(rows, ids)
        assert found == {"parent": "CANCELLED", "first": "PENDING", "second": "ENQUEUED", "third": "PENDING"}

    play(scene)


def test_refused_cancel_leaves_the_children_of_the_run_alone(play: Play) -> None:
    async def scene(rows: RunRows) -> None:
        ended = await rows.insert(WorkflowStatus.SUCCESS)
        child = await rows.insert(WorkflowStatus.PENDING, parent_workflow_id=ended)
        changes = await rows.control.cancel([ended])
        assert list(changes.refused) == [ended]
        assert await rows.status(child) == "PENDING"

    play(scene)


def test_thousands_of_children_are_cancelled_in_one_change(play: Play) -> None:
    async def scene(rows: RunRows) -> None:
        parent = await rows.insert()
        await _many(rows, 1200, parent)
        await rows.control.cancel([parent])
        [found] = await rows.manager.fetch(
            f"SELECT count(*) AS n, count(DISTINCT change_key) AS keys_ FROM {rows.runs} WHERE status = 'CANCELLED'"
        )
        assert (found["n"], found["keys_"]) == (1201, 1)

    play(scene)


async def _many(rows: RunRows, count: int, parent: str | None, status: str = "PENDING") -> list[str]:
    runs = [f"many-{n}" for n in range(1, count + 1)]
    for first in range(0, count, 200):
        some = runs[first : first + 200]
        await rows.manager.execute(
            f"INSERT INTO {rows.runs} (workflow_uuid, status, name, created_at, updated_at, parent_workflow_id) VALUES "
            + ", ".join(["(?, ?, 'f', 1, 1, ?)"] * len(some)),
            *(value for run in some for value in (run, status, parent)),
        )
    return runs


def test_changes_come_in_the_order_asked_for_and_each_id_once(play: Play) -> None:
    async def scene(rows: RunRows) -> None:
        runs = (await _many(rows, 1001, None, "CANCELLED"))[::-1]
        lost = ["nobody", *runs, runs[0], "nobody", "also nobody"]
        changes = await rows.control.resume(lost)
        assert changes.changed == tuple(runs)
        assert list(changes.refused) == ["nobody", "also nobody"]
        assert all(isinstance(each, WorkflowNotFound) for each in changes.refused.values())
        assert await rows.control.resume([]) == type(changes)((), {})

    play(scene)


@pytest.mark.parametrize("verb", ["cancel", "delete"])
def test_child_that_was_changed_with_its_parent_counts_as_changed_in_a_later_transaction(play: Play, verb: str) -> None:
    async def scene(rows: RunRows) -> None:
        status = WorkflowStatus.PENDING if verb == "cancel" else WorkflowStatus.SUCCESS
        parent = await rows.insert(status)
        child = await rows.insert(status, parent_workflow_id=parent)
        others = await _many(rows, 600, None, status)
        changes = await getattr(rows.control, verb)([parent, *others, child], children=True)
        assert changes.changed == (parent, *others, child)

    play(scene)


def test_change_that_dies_between_two_transactions_keeps_the_first(play: Play) -> None:
    async def scene(rows: RunRows) -> None:
        runs = await _many(rows, 700, None, "SUCCESS")

        def die() -> None:
            raise SystemExit

        faults.arm("control.changed", die)
        try:
            with pytest.raises(SystemExit):
                await rows.control.delete(runs)
        finally:
            faults.disarm()
        [left] = await rows.manager.fetch(f"SELECT count(*) AS n FROM {rows.runs}")
        assert left["n"] == 200
        changes = await rows.control.delete(runs)
        assert (len(changes.changed), len(changes.refused)) == (200, 500)

    play(scene)


def test_delete_is_refused_while_the_parent_may_ask_for_the_result(play: Play) -> None:
    async def scene(rows: RunRows) -> None:
        parent = await rows.insert(WorkflowStatus.PENDING)
        child = await rows.insert(WorkflowStatus.SUCCESS, parent_workflow_id=parent)
        orphan = await rows.insert(WorkflowStatus.SUCCESS, parent_workflow_id="deleted long ago", steps=2)
        changes = await rows.control.delete([child, orphan])
        assert changes.changed == (orphan,)
        assert await rows.steps(orphan) == []
        refusal = changes.refused[child]
        assert isinstance(refusal, TransitionRefused)
        assert f"its parent {parent} is PENDING" in str(refusal)
        await rows.control.cancel([parent])
        assert (await rows.control.delete([child])).changed == (child,)

    play(scene)


def test_delete_with_children_takes_all_below_or_names_who_has_not_ended(play: Play) -> None:
    async def scene(rows: RunRows) -> None:
        ids = await family(rows, middle=WorkflowStatus.SUCCESS, last=WorkflowStatus.ENQUEUED)
        await rows.control.cancel([ids["parent"], ids["first"]], children=False)
        changes = await rows.control.delete([ids["parent"], ids["first"]], children=True)
        assert changes.changed == (ids["first"],)
        refusal = changes.refused[ids["parent"]]
        assert isinstance(refusal, TransitionRefused)
        assert f"{ids['third']}, which was started by it or below it, is ENQUEUED" in str(refusal)
        assert refusal.status == "CANCELLED"
        del ids["first"]
        assert None not in (await statuses(rows, ids)).values()
        await rows.control.cancel([ids["third"]])
        assert (await rows.control.delete([ids["parent"]], children=True)).changed == (ids["parent"],)
        assert set((await statuses(rows, ids)).values()) == {None}
        assert await rows.steps(ids["third"]) == []

    play(scene)


def test_delete_without_children_leaves_them(play: Play) -> None:
    async def scene(rows: RunRows) -> None:
        ids = await family(rows, middle=WorkflowStatus.SUCCESS, last=WorkflowStatus.SUCCESS)
        await rows.control.cancel([ids["parent"]], children=False)
        assert (await rows.control.delete([ids["parent"], ids["second"]])).changed == (ids["parent"], ids["second"])
        found = await statuses(rows, ids)
        assert found == {"parent": None, "first": "PENDING", "second": None, "third": "SUCCESS"}

    play(scene)


def test_fork_copies_the_call_and_the_history_below_the_step(play: Play) -> None:
    async def scene(rows: RunRows) -> None:
        copied: dict[str, Any] = {
            "class_name": "C",
            "config_name": "c",
            "authenticated_user": "ada",
            "assumed_role": "admin",
            "authenticated_roles": '["admin"]',
            "attributes": '{"a":1}',
            "priority": 7,
            "fingerprint": "f" * 16,
            "application_id": "shop",
            "application_version": "v1",
        }
        old = await rows.insert(WorkflowStatus.ERROR, steps=4, parent_workflow_id="somebody", **copied)
        before = await rows.row(old)
        forks = await rows.control.fork(
            [old, old], 3, application_version="v2", queue_name="q", queue_partition_key="p", new_ids=["chosen"]
        )
        assert forks == {old: "chosen"}
        fork = await rows.row("chosen")
        assert fork is not None
        assert {name: fork[name] for name in copied} == copied | {"application_version": "v2"}
        for name in ("error", "deduplication_id", "parent_workflow_id", "owner_xid", "executor_id", "change_key"):
            assert fork[name] is None
        assert (fork["queue_name"], fork["queue_partition_key"]) == ("q", "p")
        steps = await rows.steps("chosen")
        assert [(step["function_id"], step["identity"], step["owner_xid"]) for step in steps] == [
            (1, "0", None),
            (2, "1", None),
        ]
        assert await rows.row(old) == {**(before or {}), "was_forked_from": True}
        again = await rows.control.fork(["chosen"])
        whole = await rows.row(again["chosen"])
        assert whole is not None
        assert (whole["queue_name"], whole["queue_partition_key"], whole["executions"]) == (INTERNAL_QUEUE, None, 0)
        assert whole["application_version"] == "v2"
        assert await rows.steps(again["chosen"]) == []

    play(scene)


def test_fork_of_many_is_all_or_nothing(play: Play) -> None:
    async def scene(rows: RunRows) -> None:
        runs = await _many(rows, 600, None)
        with pytest.raises(WorkflowNotFound, match="'nobody'"):
            await rows.control.fork([*runs, "nobody"])
        with pytest.raises(WorkflowConflict, match="many-5"):
            await rows.control.fork(["many-1", "many-2"], new_ids=["free", "many-5"])
        with pytest.raises(ConfigurationError, match="2 runs are to be forked and 1 different"):
            await rows.control.fork(["many-1", "many-2"], new_ids=["free", "free"])
        [found] = await rows.manager.fetch(f"SELECT count(*) AS n FROM {rows.runs}")
        assert found["n"] == 600
        forks = await rows.control.fork(runs)
        assert list(forks) == runs
        assert len(set(forks.values())) == 600
        assert await rows.control.fork([]) == {}

    play(scene)


@pytest.mark.parametrize("status", ENDED)
def test_rewind_keeps_what_is_below_the_step_and_may_change_version_and_queue(play: Play, status: str) -> None:
    async def scene(rows: RunRows) -> None:
        run = await rows.insert(WorkflowStatus(status), steps=5, application_version="v1", queue_partition_key="old")
        await rows.control.rewind([run], 4, application_version="v2", queue_name="q", queue_partition_key="p")
        row = await rows.row(run)
        assert row is not None
        assert (row["application_version"], row["queue_name"], row["queue_partition_key"]) == ("v2", "q", "p")
        assert [step["function_id"] for step in await rows.steps(run)] == [1, 2, 3]
        await rows.control.cancel([run])
        await rows.control.rewind([run])
        row = await rows.row(run)
        assert row is not None
        assert (row["application_version"], row["queue_name"], row["generation"]) == ("v2", INTERNAL_QUEUE, 3)
        assert await rows.steps(run) == []

    play(scene)


def test_attributes_are_replaced_merged_and_cleared(play: Play) -> None:
    async def scene(rows: RunRows) -> None:
        run = await rows.insert(WorkflowStatus.SUCCESS)

        async def then(attributes: dict[str, Any] | None, *, merge: bool = False) -> Any:
            changes = await rows.control.update_attributes([run, "nobody"], attributes, merge=merge)
            assert (changes.changed, list(changes.refused)) == ((run,), ["nobody"])
            row = await rows.row(run)
            assert row is not None
            return row["attributes"] and json.loads(row["attributes"])

        assert await then({"deep": {"a": 1}, "x": [1.5, "ü", True]}, merge=True) == {
            "deep": {"a": 1},
            "x": [1.5, "ü", True],
        }
        assert await then({"deep": {"b": 2}, "x": None, "never": None}, merge=True) == {"deep": {"b": 2}}
        assert await then({"only": None}) == {"only": None}
        assert await then(None) is None
        with pytest.raises(CannotSerialize):
            await rows.control.update_attributes([run], {"what": object()})

    play(scene)


def test_wrong_calls_are_refused_before_anything_is_sent(play: Play) -> None:
    async def scene(rows: RunRows) -> None:
        run = await rows.insert(WorkflowStatus.DELAYED)
        for position in (0, 1.5, True):
            with pytest.raises(ConfigurationError, match="start_step"):
                await rows.control.rewind([run], cast("int", position))
            with pytest.raises(ConfigurationError, match="start_step"):
                await rows.control.fork([run], cast("int", position))
        with pytest.raises(ConfigurationError, match="exactly one"):
            await rows.control.set_delay([run], 1, delay_ms=1)
        with pytest.raises(ConfigurationError, match="exactly one"):
            await rows.control.set_delay([run], None, delay_ms=None)
        with pytest.raises(ConfigurationError, match=r"give \['"):
            await rows.control.cancel(run)
        assert await rows.status(run) == "DELAYED"

    play(scene)


@pytest.mark.parametrize("analysed", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_overdue_runs_are_found_by_the_index_of_deadlines(
    kind: str, fresh_database: Callable[[str], str], analysed: bool
) -> None:
    async def plan() -> str:
        async with ConnectionManager(fresh_database(kind)) as manager:
            await Migrator(manager).migrate()
            rows = RunRows(manager)
            await _many(rows, 5000, None)
            await rows.insert(workflow_deadline_epoch_ms=LONG_AGO)
            if analysed:
                await manager.execute(f"ANALYZE {'TABLE ' if kind == 'mariadb' else ''}{rows.runs}")
            [(text, values)] = control_queries(manager.dialect, "holdfast")["runs_overdue"].bind({"most": 500})
            explain = "EXPLAIN QUERY PLAN" if kind == "sqlite" else "EXPLAIN"
            found = await manager.backend().fetch(f"{explain} {text}", values)
            return "\n".join(str(value) for row in found for value in row.values())

    assert "idx_workflow_status_deadline" in asyncio.run(plan())
