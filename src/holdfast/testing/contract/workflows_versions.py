"""The contract of versions: who may go on with whose runs, which version is the latest, and how code changes."""

from __future__ import annotations

import logging
import re
import secrets
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.client import Client
from holdfast.errors import MisuseError, WorkflowNotFound
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
    """Versions and patches."""

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


class PatchContract:
    """``patch`` and ``deprecate_patch``: a run goes the way it began."""

    @pytest.mark.parametrize("held", ["before", "after"])
    def test_run_from_before_a_patch_goes_the_old_way_once_it_has_passed_the_place(
        self, venue: Venue, held: str
    ) -> None:
        def build(app: App, life: Life) -> Flow:
            step = app.step(double)

            async def changing() -> list[int]:
                found = [await step(1)]
                if held == "before":
                    await life()
                if life.number == 1:
                    found.append(await step(2))
                elif await app.do("patch", "better"):
                    found.append(await step(20))
                else:
                    found.append(await step(2))
                if held == "after":
                    await life()
                return [*found, await step(3)]

            return app.workflow(changing)

        async def scene(stage: Stage) -> None:
            handle = await stage.relive(build)
            assert await handle.result() == ([2, 40, 6] if held == "before" else [2, 4, 6])
            names = [row["function_name"] for row in stage.steps(handle.workflow_id)]
            assert names.count("holdfast.patch-better") == (1 if held == "before" else 0)

        Stage(venue).play(scene)

    @pytest.mark.parametrize("side_by_side", [True, False])
    def test_run_that_was_in_branches_beyond_a_patch_goes_the_old_way(self, venue: Venue, side_by_side: bool) -> None:
        def build(app: App, life: Life) -> Flow:
            step = app.step(double)

            async def part(number: int) -> int:
                found: int = await step(number)
                await life()
                return found

            async def changing() -> list[int]:
                found = []
                if life.number == 2 and await app.do("patch", "better"):
                    found.append(await step(100))
                if side_by_side:
                    return [*found, *await app.gather(lambda: part(1), lambda: part(2))]
                return [*found, await app.timeout(60, lambda: part(1))]

            return app.workflow(changing)

        async def scene(stage: Stage) -> None:
            handle = await stage.relive(build)
            assert await handle.result() == ([2, 4] if side_by_side else [2])

        Stage(venue).play(scene)

    @pytest.mark.parametrize("name", ["", "better\0", "b" * 241])
    def test_name_of_a_patch_that_not_every_database_keeps_is_refused(self, venue: Venue, name: str) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()

            async def changing() -> bool:
                found: bool = await app.do("patch", name)
                return found

            flow = app.workflow(changing)
            async with app:
                error = await (await flow.start()).error()
                assert "The name of a patch has 1 to 240" in str(error)

        Stage(venue).play(scene)

    def test_patched_run_replays_with_the_patch_and_with_its_deprecation(self, venue: Venue) -> None:
        def build(app: App, life: Life) -> Flow:
            step = app.step(double)

            async def changing() -> list[int]:
                found = []
                if life.number == 1:
                    assert await app.do("patch", "better")
                else:
                    await app.do("deprecate_patch", "better")
                found.append(await step(20))
                await life()
                return [*found, await step(3)]

            return app.workflow(changing)

        async def scene(stage: Stage) -> None:
            handle = await stage.relive(build)
            assert await handle.result() == [40, 6]
            fresh = stage.app()
            flow = build(fresh, Life(2))
            async with fresh:
                again = await flow.start()
                assert await again.result() == [40, 6]
                assert len(stage.steps(again.workflow_id)) == 2

        Stage(venue).play(scene)

    def test_patched_run_replays_with_the_same_patch(self, venue: Venue) -> None:
        def build(app: App, life: Life) -> Flow:
            step = app.step(double)

            async def changing() -> list[Any]:
                found = [await app.do("patch", "a"), await step(1), await app.do("patch", "b"), await step(2)]
                await life()
                return [*found, await app.do("patch", "c")]

            return app.workflow(changing)

        async def scene(stage: Stage) -> None:
            handle = await stage.relive(build)
            assert await handle.result() == [True, 2, True, 4, True]

        Stage(venue).play(scene)

    @pytest.mark.parametrize("verb", ["patch", "deprecate_patch"])
    def test_run_that_a_new_release_took_the_new_way_is_left_to_that_release(self, venue: Venue, verb: str) -> None:
        """Both releases run side by side, and the old one cannot go on with what only the new one does."""

        def build(app: App, life: Life, *, first: Life | None = None, way: str = "old") -> Flow:
            step = app.step(double)

            async def changing() -> list[int]:
                found = [await step(1)]
                if first is not None:
                    await first()
                if way == "old" or await app.do(way, "better") is False:
                    found.append(await step(2))
                else:
                    found.append(await step(20))
                await life()
                return [*found, await step(3)]

            return app.workflow(changing)

        async def scene(stage: Stage) -> None:
            before, after, new_version = stage.gate(), stage.gate(), f"{stage.version}-new"
            newer: dict[str, Any] = {"application_version": new_version, "compatible_versions": [stage.version]}
            old = stage.app()
            flow = build(old, Life(1), first=Life(1, before))
            await old.launch()
            handle = await flow.start()
            await before.reached()
            await stage.crash(old)
            new = stage.app(**newer)
            build(new, Life(1, after), way=verb)
            await new.launch()
            await after.reached()
            async with stage.app() as still_there:
                fresh = build(still_there, Life(2))
                await stage.crash(new)
                await stage.until(lambda: stage.run(handle.workflow_id)["status"] in {"ENQUEUED", "ERROR"})
                assert await fresh() == [2, 4, 6]  # it has looked for work since
                row = stage.run(handle.workflow_id)
                assert (row["status"], row["application_version"]) == ("ENQUEUED", new_version)
                again = stage.app(**newer)
                build(again, Life(2), way="patch")  # what was deprecated may also be gone back on
                async with again:
                    assert await again.retrieve(handle.workflow_id).result() == [2, 40, 6]

        Stage(venue).play(scene)

    def test_run_that_a_new_release_took_the_old_way_is_left_to_both(self, venue: Venue) -> None:
        def build(app: App, life: Life, *, is_new: bool = False) -> Flow:
            step = app.step(double)

            async def changing() -> list[int]:
                found = [await step(20 if is_new and await app.do("patch", "better") else 2)]
                await life()
                return [*found, await step(3)]

            return app.workflow(changing)

        async def scene(stage: Stage) -> None:
            handle = await lost(stage, build)
            gate = stage.gate()
            new = stage.app(application_version=f"{stage.version}-new", compatible_versions=[stage.version])
            build(new, Life(1, gate), is_new=True)
            await new.launch()
            await gate.reached()
            async with stage.app() as old:
                build(old, Life(2))
                await stage.crash(new)
                assert await old.retrieve(handle.workflow_id).result() == [4, 6]

        Stage(venue).play(scene)

    def test_record_of_a_patch_that_the_code_lacks_is_said_to_be_that(self, venue: Venue) -> None:
        def build(app: App, life: Life) -> Flow:
            step = app.step(double)

            async def changing() -> int:
                if life.number == 1:
                    await app.do("patch", "better")
                await life()
                found: int = await step(3)
                return found

            return app.workflow(changing)

        async def scene(stage: Stage) -> None:
            error = await (await stage.relive(build)).error()
            assert "did 'holdfast.patch-better' at 0" in str(error)
            assert "This code lacks that patch" in str(error)

        Stage(venue).play(scene)

    def test_patch_outside_a_workflow_is_refused(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            async with stage.app() as app:
                for verb in ("patch", "deprecate_patch"):
                    with pytest.raises(MisuseError, match=verb):
                        await app.do(verb, "x")

        Stage(venue).play(scene)
