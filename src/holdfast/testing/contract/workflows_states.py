"""The contract of what is shown of runs: single runs, their steps, counts, and the executors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.errors import ConfigurationError, WorkflowNotFound
from holdfast.testing.contract.workflows_looking import made
from holdfast.testing.contract.workflows_stage import Stage

if TYPE_CHECKING:
    from holdfast.testing.contract.venue import Venue


async def double(number: int) -> int:
    return number * 2


async def fail() -> None:
    raise LookupError("gone")


class StatesContract:
    """Single runs, their steps, counts and executors."""

    def test_run_shows_what_it_was_given_and_what_became_of_it(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app(name="shop", executor_id="till-1")
            step = app.step(double)

            async def doubled(number: int) -> dict[str, int]:
                return {"twice": await step(number)}

            flow = app.workflow(doubled, name="doubled").options(
                attributes={"tenant": "a"}, authenticated_user="ann", authenticated_roles=("x", "y"), timeout=3600
            )
            async with app:
                handle = await flow.start(4)
                await handle.result()
                state = await app.do("get_workflow", handle.workflow_id)
                assert (state.workflow_id, state.status, state.name) == (handle.workflow_id, "SUCCESS", "doubled")
                assert state.inputs == {"positionalArgs": [4], "namedArgs": {}}
                assert (state.output, state.error) == ({"twice": 8}, None)
                assert (state.attributes, state.authenticated_user) == ({"tenant": "a"}, "ann")
                assert (state.authenticated_roles, state.was_forked_from) == (("x", "y"), False)
                assert (state.application_id, state.executor_id) == ("shop", "till-1")
                assert (state.workflow_timeout_ms, state.executions) == (3_600_000, 1)
                assert state.created_at <= state.started_at_epoch_ms <= state.completed_at
                bare = await app.do("get_workflow", handle.workflow_id, load_input=False, load_output=False)
                assert (bare.inputs, bare.output, bare.attributes) == (None, None, {"tenant": "a"})
                [listed] = await app.do("list_workflows", workflow_ids=handle.workflow_id, load_output=True)
                assert (listed.inputs, listed.output) == (None, {"twice": 8})

        Stage(venue).play(scene)

    def test_steps_are_shown_in_order_and_in_part(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            step, bad = app.step(double), app.step(fail)

            async def three() -> None:
                await step(1)
                await step(2)
                await bad()

            flow = app.workflow(three)
            async with app:
                handle = await flow.start()
                await handle.error()
                steps = await app.do("list_steps", handle.workflow_id)
                assert [(each.function_id, each.function_name) for each in steps] == [
                    (1, "double"), (2, "double"), (3, "fail"),
                ]  # fmt: skip
                assert [(each.output, each.error) for each in steps] == [
                    (2, None), (4, None), (None, "LookupError: gone"),
                ]  # fmt: skip
                assert (await app.do("get_workflow", handle.workflow_id)).error == "LookupError: gone"
                [second] = await app.do("list_steps", handle.workflow_id, limit=1, offset=1, load_output=False)
                assert (second.function_id, second.output, second.identity) == (2, None, "1")
                assert await app.do("list_steps", handle.workflow_id, offset=9) == []
                for missing in (app.do("get_workflow", "nobody"), app.do("list_steps", "nobody")):
                    with pytest.raises(WorkflowNotFound, match="nobody"):
                        await missing

        Stage(venue).play(scene)

    def test_payload_that_cannot_be_read_is_shown_by_its_marker(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            async with stage.app() as app:
                secret = made(stage, 1, inputs="AAAA", serialization="portable_json+aesgcm:k1", output="1")
                state = await app.do("get_workflow", secret["workflow_uuid"])
                assert (state.inputs, state.output) == ("<cannot be read: portable_json+aesgcm:k1>", 1)
                pickled = made(stage, 2, error="gASVBQ==", output_serialization="py_pickle")["workflow_uuid"]
                [state] = await app.do("list_workflows", workflow_ids=pickled, load_output=True)
                assert state.error == "<cannot be read: py_pickle>"

        Stage(venue).play(scene)

    def test_event_message_or_entry_that_cannot_be_read_hides_no_other(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()

            async def tell() -> None:
                for number, key in enumerate("ab"):
                    await app.do("set_event", key, number)
                    await app.do("write_stream", "numbers", number)

            flow = app.workflow(tell)
            async with app:
                handle = await flow.start()
                await handle.result()
                for number in range(2):
                    await app.do("send", handle.workflow_id, number)
                for table, column, value in (
                    ("workflow_events", "workflow_uuid", "value"),
                    ("streams", "workflow_uuid", "value"),
                    ("notifications", "destination_uuid", "message"),
                ):
                    which = f"{column} = ? AND {value} = '0'"
                    pickled = f"UPDATE {stage.table(table)} SET serialization = 'py_pickle' WHERE {which}"
                    stage.execute(pickled, handle.workflow_id)
                hidden = "<cannot be read: py_pickle>"
                assert await app.do("get_all_events", handle.workflow_id) == {"a": hidden, "b": 1}
                assert await app.do("get_all_stream_entries", handle.workflow_id) == {"numbers": [hidden, 1]}
                sent = await app.do("get_all_notifications", handle.workflow_id)
                assert [each.message for each in sent] == [hidden, 1]

        Stage(venue).play(scene)

    def test_runs_are_counted_by_group_and_by_time(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            async with stage.app(application_version=f"{stage.version}-looker") as app:
                ours = {"workflow_id_prefix": stage.version}
                assert await app.do("count_workflows", **ours) == []
                for number in range(10):
                    status = "ERROR" if number % 5 == 0 else "SUCCESS"
                    made(stage, number, status=status, queue_name="q" if number > 6 else None, created_at=number * 1000)
                [error, success] = await app.do("count_workflows", **ours)
                assert (error.group, error.count, error.oldest, error.newest) == ({"status": "ERROR"}, 2, 0, 5000)
                assert (success.group, success.count) == ({"status": "SUCCESS"}, 8)
                counts = await app.do("count_workflows", group_by=["queue_name", "status"], bucket=5, **ours)
                assert [(each.group["bucket"], each.group["queue_name"], each.count) for each in counts] == [
                    (0, None, 1), (0, None, 4), (5000, None, 1), (5000, None, 1), (5000, "q", 3),
                ]  # fmt: skip
                assert await app.do("count_workflows", group_by="status", **ours) == [error, success]
                [everything] = await app.do("count_workflows", group_by=[], **ours)
                assert (everything.group, everything.count) == ({}, 10)
                [ended] = await app.do("count_workflows", status=["ERROR", "CANCELLED"], **ours)
                assert ended.count == 2
                with pytest.raises(ConfigurationError, match="inputs"):
                    await app.do("count_workflows", group_by=["inputs"])

        Stage(venue).play(scene)

    def test_executors_are_shown_while_they_live(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            name = f"{stage.version}-till"
            async with stage.app() as app:
                async with stage.app(executor_id=name):
                    [there] = [each for each in await app.do("list_executors") if each.executor_id == name]
                    assert (there.application_version, there.lease_ms, there.stalled_since) == (
                        stage.version,
                        5000,
                        None,
                    )
                    assert there.pid > 0
                    assert -60_000 < there.silent_ms < 60_000
                assert name not in {each.executor_id for each in await app.do("list_executors")}

        Stage(venue).play(scene)
