"""The contract of the tables: what plain SQL sees of runs, steps and statuses."""

from __future__ import annotations

import json
import secrets
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from holdfast.errors import RecoveryExhausted, WorkflowCancelled
from holdfast.model.workflow import INTERNAL_QUEUE, WorkflowStatus
from holdfast.testing.contract.workflows_stage import Stage
from holdfast.testing.contract.workflows_transactions_stage import Tx, transaction

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.testing.contract.venue import Venue
    from holdfast.testing.contract.workflows_stage import App, Flow, Life

RUN_COLUMNS = {
    "workflow_uuid", "status", "name", "inputs", "output", "error", "authenticated_user", "assumed_role",
    "authenticated_roles", "executor_id", "created_at", "updated_at", "started_at_epoch_ms", "application_version",
    "application_id", "class_name", "config_name", "parent_workflow_id", "forked_from", "was_forked_from", "owner_xid",
    "queue_name", "deduplication_id", "priority", "queue_partition_key", "recovery_attempts", "delay_until_epoch_ms",
    "workflow_timeout_ms", "workflow_deadline_epoch_ms", "serialization",
}  # fmt: skip
STEP_COLUMNS = {
    "workflow_uuid", "function_id", "function_name", "output", "error", "child_workflow_id", "started_at_epoch_ms",
    "completed_at_epoch_ms", "serialization",
}  # fmt: skip


async def double(number: int) -> int:
    return number * 2


async def fail() -> None:
    raise LookupError("gone")


def stepping(app: App) -> Flow:
    step = app.step(double)

    async def steps(number: int, *, word: str = "x") -> dict[str, int]:
        return {word: await step(number)}

    return app.workflow(steps, name="steps")


class TablesContract:
    """Rows of ``workflow_status`` and ``operation_outputs``, as documented."""

    def test_run_that_succeeded_is_all_in_its_row(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app(name="shop", executor_id="till-1")
            flow = stepping(app).options(
                timeout=3600,
                attributes={"tenant": "a"},
                authenticated_user="ann",
                assumed_role="clerk",
                authenticated_roles=("clerk", "guest"),
            )
            async with app:
                before = time.time() * 1000
                handle = await flow.start(4, word="y")
                await handle.result()
                row = stage.run(handle.workflow_id)
            assert row.keys() >= RUN_COLUMNS
            assert (row["status"], row["name"], row["class_name"], row["config_name"]) == (
                "SUCCESS",
                "steps",
                None,
                None,
            )
            assert json.loads(row["inputs"]) == {"positionalArgs": [4], "namedArgs": {"word": "y"}}
            assert (json.loads(row["output"]), row["error"]) == ({"y": 8}, None)
            assert (row["serialization"], row["output_serialization"]) == ("portable_json", "portable_json")
            assert (row["authenticated_user"], row["assumed_role"]) == ("ann", "clerk")
            assert json.loads(row["authenticated_roles"]) == ["clerk", "guest"]
            assert json.loads(row["attributes"]) == {"tenant": "a"}
            assert (row["application_id"], row["executor_id"]) == ("shop", "till-1")
            assert row["application_version"] == stage.version
            assert before - 60_000 < row["created_at"] <= row["started_at_epoch_ms"] <= row["completed_at"]
            assert row["completed_at"] == row["updated_at"] < before + 60_000
            assert row["workflow_timeout_ms"] == 3_600_000
            assert abs(row["workflow_deadline_epoch_ms"] - row["created_at"] - 3_600_000) < 60_000
            assert (row["recovery_attempts"], row["priority"], row["was_forked_from"]) == (0, 0, 0)
            for column in (
                "parent_workflow_id",
                "forked_from",
                "queue_name",
                "deduplication_id",
                "delay_until_epoch_ms",
            ):
                assert row[column] is None
            assert row["owner_xid"]

        Stage(venue).play(scene)

    def test_run_that_failed_keeps_its_error(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            flow = app.workflow(fail)
            async with app:
                handle = await flow.start()
                await handle.error()
                row = stage.run(handle.workflow_id)
                assert (row["status"], row["output"]) == ("ERROR", None)
                record = json.loads(row["error"])
                assert (record["name"], record["message"], record["code"]) == ("LookupError", "gone", None)
                assert json.loads(row["inputs"]) == {"positionalArgs": [], "namedArgs": {}}

        Stage(venue).play(scene)

    def test_steps_are_numbered_and_timed(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            step, bad = app.step(double), app.step(fail)

            async def steps() -> None:
                await step(1)
                with pytest.raises(LookupError):
                    await bad()
                await app.do("sleep", 0.01)

            flow = app.workflow(steps)
            async with app:
                handle = await flow.start()
                await handle.result()
                first, second, third = stage.steps(handle.workflow_id)
                assert first.keys() >= STEP_COLUMNS
                assert [row["function_id"] for row in (first, second, third)] == [1, 2, 3]
                assert [row["identity"] for row in (first, second, third)] == ["0", "1", "2"]
                assert (first["function_name"], first["output"], first["error"]) == ("double", "2", None)
                assert (second["function_name"], second["output"]) == ("fail", None)
                assert json.loads(second["error"])["name"] == "LookupError"
                assert third["function_name"] == "holdfast.sleep"
                for row in (first, second, third):
                    assert row["started_at_epoch_ms"] <= row["completed_at_epoch_ms"]
                    assert (row["child_workflow_id"], row["serialization"]) == (None, "portable_json")

        Stage(venue).play(scene)

    def test_steps_go_with_their_run(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            flow = stepping(app)
            async with app:
                handle = await flow.start(1)
                await handle.result()
                assert stage.steps(handle.workflow_id)
                runs = stage.table("workflow_status")
                assert stage.execute(f"DELETE FROM {runs} WHERE workflow_uuid = ?", handle.workflow_id) == 1
                assert stage.steps(handle.workflow_id) == []

        Stage(venue).play(scene)

    @pytest.mark.parametrize(
        ("status", "error"),
        [("CANCELLED", WorkflowCancelled), ("MAX_RECOVERY_ATTEMPTS_EXCEEDED", RecoveryExhausted)],
    )
    def test_run_that_was_ended_from_outside_tells_whoever_waits(
        self, venue: Venue, status: str, error: type[Exception]
    ) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            flow = stepping(app)
            async with app:
                handle = await flow.start(1)
                await handle.result()
                runs = stage.table("workflow_status")
                stage.execute(f"UPDATE {runs} SET status = ? WHERE workflow_uuid = ?", status, handle.workflow_id)
                again = app.retrieve(handle.workflow_id)
                assert (await again.status()).status is WorkflowStatus(status)
                with pytest.raises(error, match=handle.workflow_id):
                    await again.result()

        Stage(venue).play(scene)

    @pytest.mark.parametrize("status", ["ENQUEUED", "DELAYED"])
    def test_run_that_waits_in_the_internal_queue_is_claimed_when_due(self, venue: Venue, status: str) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            stepping(app)
            workflow_id = f"queued-{secrets.token_hex(8)}"
            async with app:
                stage.execute(
                    f"INSERT INTO {stage.table('workflow_status')} (workflow_uuid, status, name, inputs, serialization,"
                    " application_version, queue_name, delay_until_epoch_ms, created_at, updated_at)"
                    " VALUES (?, ?, 'steps', ?, 'portable_json', ?, ?, 1, 1, 1)",
                    *(workflow_id, status, '{"positionalArgs": [5]}', stage.version, INTERNAL_QUEUE),
                )
                assert await app.retrieve(workflow_id).result() == {"x": 10}
                row = stage.run(workflow_id)
                assert (row["status"], row["executions"]) == ("SUCCESS", 1)
                assert row["started_at_epoch_ms"] > 1

        Stage(venue).play(scene)

    @pytest.mark.parametrize(
        "what", ["step", "failure", "child", "event", "stream", "speaking step", "sleep", "transaction"]
    )
    def test_recovery_attempts_count_lives_without_progress(self, venue: Venue, what: str) -> None:
        """Whatever is recorded is progress, and clears the run."""
        attempts: list[int] = []
        suspect: list[bool] = []

        def build(app: App, life: Life) -> Flow:
            async def speak() -> None:
                await app.do("write_stream", "words", 1)

            async def pay(_: Tx) -> None:
                pass

            async def leaf() -> None:
                pass

            step, failing, speaking = app.step(double), app.step(fail), app.step(speak)
            paying, child = transaction(app, pay), app.workflow(leaf)
            progress: dict[str, Callable[[], Awaitable[object]]] = {
                "step": lambda: step(1),
                "failure": failing,
                "child": child.start,
                "event": lambda: app.do("set_event", "key", 1),
                "stream": lambda: app.do("write_stream", "words", 1),
                "speaking step": speaking,
                "sleep": lambda: app.do("sleep", 0.001),
                "transaction": paying,
            }

            def look() -> None:
                workflow_id = app.raw.workflow_id
                attempts.append(stage.run(workflow_id)["recovery_attempts"])
                suspect.append(app.raw._engine.runner.running[workflow_id].suspect)  # noqa: SLF001 -- as stage.crash

            async def slow() -> None:
                await life()
                look()
                with suppress(LookupError):
                    await progress[what]()
                look()

            return app.workflow(slow)

        async def scene(stage: Stage) -> None:
            handle = await stage.relive(build)
            await handle.result()
            assert attempts == [1, 0]
            assert suspect == [True, False]
            assert stage.run(handle.workflow_id)["executions"] == 2

        stage = Stage(venue)
        stage.play(scene)

    def test_row_of_a_run_that_cannot_be_read_ends_with_the_reason(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            stepping(app)
            workflow_id = f"broken-{secrets.token_hex(8)}"
            async with app:
                stage.execute(
                    f"INSERT INTO {stage.table('workflow_status')} (workflow_uuid, status, name, inputs, serialization,"
                    " application_version, queue_name, created_at, updated_at)"
                    " VALUES (?, 'ENQUEUED', 'steps', ?, 'portable_json', ?, ?, 1, 1)",
                    *(workflow_id, '{"positionalArgs": ["no number"]}', stage.version, INTERNAL_QUEUE),
                )
                error = await app.retrieve(workflow_id).error()
                assert "positionalArgs[0]" in str(error)
                assert stage.run(workflow_id)["status"] == "ERROR"

        Stage(venue).play(scene)
