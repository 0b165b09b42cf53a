"""The contract of streams: appended once, in order, by workflows; read while they grow and after."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import ConfigurationError, MisuseError, StreamClosed, WorkflowNotFound
from holdfast.testing.contract.workflows_stage import PATIENCE, Stage
from holdfast.testing.contract.workflows_streams_stage import counting, following, rows, values

if TYPE_CHECKING:
    from holdfast.testing.contract.venue import Venue
    from holdfast.testing.contract.workflows_stage import App, Flow, Life


class StreamsContract:
    """Writing and reading from workflows."""

    def test_values_come_in_order_and_the_end_is_not_shown(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            flow = counting(app, 5)
            async with app:
                handle = await flow.start()
                reader = app.raw.read_stream(handle.workflow_id, "numbers", timeout=PATIENCE)
                assert await values(app, reader) == [0, 1, 2, 3, 4]
                assert reader.offset == 6
                assert await handle.result() == 5
                found = rows(stage, handle.workflow_id, "numbers")
                assert [row["offset"] for row in found] == [0, 1, 2, 3, 4, 5]
                assert [row["function_id"] for row in found] == [1, 2, 3, 4, 5, 6]
                assert (found[5]["value"], found[5]["serialization"]) == ("__HOLDFAST_STREAM_CLOSED__", None)
                assert await app.do("get_all_stream_entries", handle.workflow_id) == {"numbers": [0, 1, 2, 3, 4]}
                assert [step["function_name"] for step in stage.steps(handle.workflow_id)] == [
                    *["holdfast.write_stream"] * 5,
                    "holdfast.close_stream",
                ]

        Stage(venue).play(scene)

    def test_reader_goes_on_at_an_offset(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            flow = counting(app, 5)
            async with app:
                handle = await flow.start()
                await handle.result()
                first = app.raw.read_stream(handle.workflow_id, "numbers", timeout=PATIENCE)
                assert [await following(app, first) for _ in range(2)] == [0, 1]
                assert first.offset == 2
                second = app.raw.read_stream(handle.workflow_id, "numbers", offset=first.offset, timeout=PATIENCE)
                assert await values(app, second) == [2, 3, 4]
                behind = app.raw.read_stream(handle.workflow_id, "numbers", offset=99, timeout=PATIENCE)
                assert await values(app, behind) == []

        Stage(venue).play(scene)

    def test_reader_gets_values_while_the_run_goes_on(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, gate = stage.app(), stage.gate()

            async def slow() -> None:
                await app.do("write_stream", "s", "first")
                await gate()
                await app.do("write_stream", "s", "second")

            flow = app.workflow(slow)
            async with app:
                handle = await flow.start()
                reader = app.raw.read_stream(handle.workflow_id, "s", timeout=PATIENCE)
                assert await following(app, reader) == "first"
                now = app.raw.read_stream(handle.workflow_id, "s", follow=False)
                assert await values(app, now) == ["first"]
                impatient = app.raw.read_stream(handle.workflow_id, "s", offset=1, timeout=0.05)
                with pytest.raises(TimeoutError, match="offset 1"):
                    await following(app, impatient)
                at_once = app.raw.read_stream(handle.workflow_id, "s", timeout=0)
                assert await following(app, at_once) == "first"
                with pytest.raises(TimeoutError, match="offset 1"):
                    await following(app, at_once)
                gate.open()
                assert await values(app, reader) == ["second"]  # nobody closed it, but the run has ended

        Stage(venue).play(scene)

    @pytest.mark.parametrize("key", ["half \ud800", "nul \0", "", 5], ids=["half", "nul", "empty", "number"])
    def test_key_that_no_stream_can_have_is_refused_at_once(self, venue: Venue, key: Any) -> None:
        async def scene(stage: Stage) -> None:
            async with stage.app() as app:
                with pytest.raises(ConfigurationError, match="key of a stream"):
                    app.raw.read_stream("a-run", key)

        Stage(venue).play(scene)

    @pytest.mark.parametrize("offset", [-1, 1.5, None, "0"])
    def test_offset_that_is_none_is_refused_at_once(self, venue: Venue, offset: Any) -> None:
        async def scene(stage: Stage) -> None:
            async with stage.app() as app:
                with pytest.raises(ConfigurationError, match="offset"):
                    app.raw.read_stream("a-run", "s", offset=offset)

        Stage(venue).play(scene)

    def test_closed_stream_is_closed_once_and_takes_nothing_more(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()

            async def closing() -> str:
                await app.do("close_stream", "s")
                await app.do("close_stream", "s")
                try:
                    await app.do("write_stream", "s", 1)
                except StreamClosed as error:
                    await app.do("write_stream", "other", 2)
                    return str(error)
                return "written"

            flow = app.workflow(closing)
            async with app:
                handle = await flow.start()
                assert "'s'" in await handle.result()
                assert len(rows(stage, handle.workflow_id, "s")) == 1
                assert await app.do("get_all_stream_entries", handle.workflow_id) == {"other": [2]}
                end = app.raw.read_stream(handle.workflow_id, "s", offset=1, timeout=PATIENCE)
                assert await values(app, end) == []
                states = await app.do("list_streams", handle.workflow_id)
                assert [(each.key, each.entries, each.next_offset, each.closed) for each in states] == [
                    ("other", 1, 1, False),
                    ("s", 0, 1, True),
                ]

        Stage(venue).play(scene)

    def test_branches_that_write_side_by_side_leave_no_gap_and_keep_their_own_order(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()

            async def branch(name: str) -> None:
                for n in range(10):
                    await app.do("write_stream", "s", [name, n])

            async def many() -> None:
                await app.gather(*(lambda name=name: branch(name) for name in "abcd"))

            flow = app.workflow(many)
            async with app:
                handle = await flow.start()
                await handle.result()
                found = rows(stage, handle.workflow_id, "s")
                assert [row["offset"] for row in found] == list(range(40))
                entries = (await app.do("get_all_stream_entries", handle.workflow_id))["s"]
                for name in "abcd":
                    assert [n for whose, n in entries if whose == name] == list(range(10))

        Stage(venue).play(scene)

    def test_replay_writes_nothing_twice(self, venue: Venue) -> None:
        def build(app: App, life: Life) -> Flow:
            async def flow() -> str:
                await app.do("write_stream", "s", "before")
                await life()
                await app.do("write_stream", "s", "after")
                return "done"

            return app.workflow(flow)

        async def scene(stage: Stage) -> None:
            handle = await stage.relive(build)
            assert await handle.result() == "done"
            assert [row["value"] for row in rows(stage, handle.workflow_id, "s")] == ['"before"', '"after"']

        Stage(venue).play(scene)

    def test_values_are_given_as_a_type(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()

            async def pairs() -> None:
                await app.do("write_stream", "s", (1, 2))

            flow = app.workflow(pairs)
            async with app:
                handle = await flow.start()
                await handle.result()
                plain = app.raw.read_stream(handle.workflow_id, "s", timeout=PATIENCE)
                typed = app.raw.read_stream(handle.workflow_id, "s", timeout=PATIENCE, type=tuple[int, int])
                assert await values(app, plain) == [[1, 2]]
                assert await values(app, typed) == [(1, 2)]

        Stage(venue).play(scene)

    def test_workflow_reads_the_same_on_replay(self, venue: Venue) -> None:
        def build(app: App, life: Life) -> Flow:
            async def reads(workflow_id: str) -> list[Any]:
                reader = app.raw.read_stream(workflow_id, "numbers", timeout=PATIENCE)
                first = [await following(app, reader), await following(app, reader)]
                await life()
                return [*first, *await values(app, reader), reader.offset]

            return app.workflow(reads)

        async def scene(stage: Stage) -> None:
            writer = stage.app()
            count = counting(writer, 3)
            async with writer:
                source = (await count.start()).workflow_id
                await writer.retrieve(source).result()
            handle = await stage.relive(build, source)
            assert await handle.result() == [0, 1, 2, 4]
            names = [step["function_name"] for step in stage.steps(handle.workflow_id)]
            assert names == ["holdfast.read_stream"] * 4

        Stage(venue).play(scene)

    def test_mistakes_are_refused(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            flow = counting(app, 1)
            async with app:
                with pytest.raises(MisuseError, match="no workflow or step"):
                    await app.do("write_stream", "s", 1)
                with pytest.raises(MisuseError, match="no workflow or step"):
                    await app.do("close_stream", "s")
                with pytest.raises(ConfigurationError, match="255"):
                    await app.do("write_stream", "s" * 256, 1)
                with pytest.raises(WorkflowNotFound, match="nobody"):
                    await following(app, app.raw.read_stream("nobody", "s", timeout=PATIENCE))
                with pytest.raises(WorkflowNotFound, match="nobody"):
                    await app.do("get_all_stream_entries", "nobody")
                handle = await flow.start()
                with pytest.raises(ConfigurationError, match="-1"):
                    app.raw.read_stream(handle.workflow_id, "numbers", offset=-1)

        Stage(venue).play(scene)
