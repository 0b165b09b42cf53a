"""The contract of patches: how the code of a workflow changes while runs of the old one are under way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import MisuseError
from holdfast.testing.contract.workflows_stage import Life, Stage
from holdfast.testing.contract.workflows_versions import double, lost

if TYPE_CHECKING:
    from holdfast.testing.contract.venue import Venue
    from holdfast.testing.contract.workflows_stage import App, Flow


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
