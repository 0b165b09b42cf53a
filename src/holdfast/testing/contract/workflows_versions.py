"""The contract of versions: who may go on with whose runs, and which version is the latest."""

from __future__ import annotations

import logging
import re
import secrets
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.client import Client
from holdfast.errors import WorkflowNotFound
from holdfast.model.workflow import INTERNAL_QUEUE, WorkflowStatus
from holdfast.testing.contract.workflows_stage import Handle, Life, Stage

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.testing.contract.venue import Venue
    from holdfast.testing.contract.workflows_stage import App, Flow


async def double(number: int) -> int:
    return number * 2


def waiting(app: App, life: Life) -> Flow:
    """Return a workflow that waits in its first life."""

    async def waits() -> str:
        await life()
        return "done"

    return app.workflow(waits, name="waits")


async def lost(stage: Stage, build: Callable[[App, Life], Flow], **settings: Any) -> Handle:
    """Start a run and lose its executor; return the handle of the lost application."""
    gate, app = stage.gate(), stage.app(**settings)
    flow = build(app, Life(1, gate))
    await app.launch()
    handle = await flow.start()
    await gate.reached()
    await stage.crash(app)
    return handle


class VersionsContract:
    """Versions of applications."""

    def test_versions_register_at_launch_and_the_newest_is_the_latest(
        self, venue: Venue, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def scene(stage: Stage) -> None:
            old, new = f"old-{secrets.token_hex(8)}", f"new-{secrets.token_hex(8)}"
            for version in (old, new):
                async with stage.app(application_version=version) as app:
                    assert (await app.do("get_latest_application_version")).version_name == version
            async with stage.app(application_version=old) as app:
                (warning,) = [each.getMessage() for each in caplog.records if new in each.getMessage()]
                assert old in warning
                names = [each.version_name for each in await app.do("list_application_versions")]
                assert names[:2] == [new, old]
                created = {each.version_name: each.created_at for each in await app.do("list_application_versions")}
                await app.do("set_latest_application_version", old)
                latest, *others = await app.do("list_application_versions")
                assert latest == await app.do("get_latest_application_version")
                assert latest.version_name == old
                assert latest.version_timestamp > max(each.version_timestamp for each in others)
                assert latest.created_at == created[old]
                with pytest.raises(WorkflowNotFound, match="nobody"):
                    await app.do("set_latest_application_version", "nobody")
            rows = stage.rows(
                f"SELECT * FROM {stage.table('application_versions')} WHERE version_name IN (?, ?)", old, new
            )
            assert len({row["version_id"] for row in rows}) == 2

        with caplog.at_level(logging.WARNING, "holdfast"):
            Stage(venue).play(scene)

    def test_application_without_workflows_registers_its_version_too(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            async with stage.app(application_version=None) as app:
                names = [each.version_name for each in await app.do("list_application_versions")]
                assert app.raw.application_version in names

        Stage(venue).play(scene)

    def test_version_that_registers_after_the_clock_was_set_back_is_the_latest(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            for ahead in (600, 0):
                stage.set_clock(ahead)
                version = f"ahead-{ahead}-{secrets.token_hex(8)}"
                async with stage.app(application_version=version) as app:
                    assert (await app.do("get_latest_application_version")).version_name == version

        Stage(venue).play(scene)

    def test_version_is_computed_from_the_sources_unless_given(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            found = []
            for body, name in ((double, "a"), (double, "a"), (double, "b")):
                app = stage.app(application_version=None)
                app.workflow(body, name=name)
                async with app:
                    found.append(app.raw.application_version)
            assert all(re.fullmatch("[0-9a-f]{32}", each) for each in found)
            assert found[0] == found[1]
            assert found[1] != found[2]

        Stage(venue).play(scene)

    def test_version_is_the_default_with_a_warning_when_sources_are_missing(
        self, venue: Venue, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app(application_version=None)
            made: dict[str, Any] = {}
            exec("def sourceless(): return 1", made)  # noqa: S102 -- a function without a file
            app.raw.workflow(made["sourceless"])
            async with app:
                assert app.raw.application_version == "DEFAULT_VERSION"
            assert any("application_version=" in each.getMessage() for each in caplog.records)

        with caplog.at_level(logging.WARNING, "holdfast"):
            Stage(venue).play(scene)

    def test_runs_of_another_version_wait_visibly_for_a_compatible_one(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            handle = await lost(stage, waiting)
            other = stage.app(application_version=f"{stage.version}-b")
            flow = waiting(other, Life(2))
            compatible = stage.app(application_version=f"{stage.version}-c", compatible_versions=[stage.version])
            waiting(compatible, Life(2))
            async with other:
                await stage.until(lambda: stage.run(handle.workflow_id)["status"] == "ENQUEUED")
                assert await flow() == "done"  # this one is its own, and it has looked for work since
                state = await other.retrieve(handle.workflow_id).status()
                assert (state.status, state.recovery_attempts) == (WorkflowStatus.ENQUEUED, 1)
                row = stage.run(handle.workflow_id)
                assert (row["queue_name"], row["owner_xid"]) == (INTERNAL_QUEUE, None)
                async with compatible:
                    assert await compatible.retrieve(handle.workflow_id).result() == "done"
                assert stage.run(handle.workflow_id)["application_version"] == stage.version

        Stage(venue).play(scene)

    def test_who_waits_in_vain_is_told_what_the_run_waits_for(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            handle = await lost(stage, waiting)
            other = stage.app(application_version=f"{stage.version}-b")
            compatible = stage.app(application_version=f"{stage.version}-c", compatible_versions=[stage.version])
            async with other, compatible:
                await stage.until(lambda: stage.run(handle.workflow_id)["status"] == "ENQUEUED")
                with pytest.raises(
                    TimeoutError, match=f"it is ENQUEUED for the application version {stage.version}, wh"
                ):
                    await other.retrieve(handle.workflow_id).result(timeout=0)
                with pytest.raises(TimeoutError, match="it is ENQUEUED, and goes on when a process that has 'waits'"):
                    await compatible.retrieve(handle.workflow_id).result(timeout=0)
                with (
                    Client(stage.url) as client,
                    pytest.raises(TimeoutError, match=f"for the application version {stage.version}, which no living"),
                ):
                    client.retrieve_workflow(handle.workflow_id).result(timeout=0)
                async with stage.app():
                    with pytest.raises(TimeoutError, match="it is ENQUEUED, and goes on when"):
                        await other.retrieve(handle.workflow_id).result(timeout=0)

        Stage(venue).play(scene)

    def test_who_waits_for_what_goes_on_is_told_that_it_does(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            gate, app = stage.gate(), stage.app(executor_id="worker-7")
            held = waiting(app, Life(1, gate))
            queue = f"queue-{stage.version}"
            async with app:
                handle = await held.start()
                await gate.reached()
                with pytest.raises(TimeoutError, match="it is PENDING in the executor worker-7, and goes on"):
                    await handle.result(timeout=0)
                later = held.raw.options(queue_name=queue, delay=3600)
                delayed = Handle(app, await app.value(later.enqueue()))
                with pytest.raises(
                    TimeoutError, match=rf"it is DELAYED in the queue {queue}, which is not registered: "
                ):
                    await delayed.result(timeout=0)
                await app.do("register_queue", queue)
                with pytest.raises(TimeoutError, match="it is DELAYED, and goes on when its time"):
                    await delayed.result(timeout=0)
                await app.do("pause_queue", queue)
                with pytest.raises(TimeoutError, match=f"it is DELAYED in the queue {queue}, which is paused"):
                    await delayed.result(timeout=0)
                await app.do("cancel_workflow", delayed.workflow_id)
                gate.open()
                assert await handle.result() == "done"

        Stage(venue).play(scene)

    def test_who_waits_for_a_run_that_limits_hold_back_is_told_of_them(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, queue = stage.app(), f"limited-{stage.version}"
            flow = app.workflow(double)
            limits = {"worker_concurrency": 3, "rate_limit_max": 1, "rate_limit_period_sec": 3600.0}
            async with app:
                await app.do("register_queue", queue, **limits)
                queued = flow.raw.options(queue_name=queue)
                first, second = [Handle(app, await app.value(queued.enqueue(1))) for _ in "ab"]
                assert await first.result() == 2
                told = (
                    rf"ENQUEUED in the queue {queue} \(worker_concurrency=3, rate_limit_max=1 in 3600 s\), and goes on"
                )
                with pytest.raises(TimeoutError, match=told):
                    await second.result(timeout=0)
                await app.do("cancel_workflow", second.workflow_id)

        Stage(venue).play(scene)

    def test_runs_of_unknown_functions_wait_visibly_for_a_process_that_has_them(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            handle = await lost(stage, waiting)
            ignorant = stage.app()
            flow = ignorant.workflow(double)
            async with ignorant:
                await stage.until(lambda: stage.run(handle.workflow_id)["status"] == "ENQUEUED")
                assert await flow(1) == 2
                state = await ignorant.retrieve(handle.workflow_id).status()
                assert (state.status, state.name) == (WorkflowStatus.ENQUEUED, "waits")
                knowing = stage.app()
                waiting(knowing, Life(2))
                async with knowing:
                    assert await ignorant.retrieve(handle.workflow_id).result() == "done"

        Stage(venue).play(scene)
