"""The contract of streams of runs that are changed, and of dispatch state."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from holdfast.errors import ConfigurationError
from holdfast.model.workflow import Retry
from holdfast.testing.contract.workflows_stage import PATIENCE, Stage
from holdfast.testing.contract.workflows_streams_stage import counting, following, rows, values
from holdfast.workflows.streams import StreamReset

if TYPE_CHECKING:
    from holdfast.testing.contract.venue import Venue


class StreamsOfChangedRunsContract:
    """What becomes of streams when runs are rewound, forked, tried again, deleted, exported and imported."""

    def test_rewind_cuts_streams_and_opens_them_again(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            flow = counting(app, 4)
            async with app:
                handle = await flow.start()
                await handle.result()
                await app.do("rewind_workflow", handle.workflow_id, 3)
                assert await app.retrieve(handle.workflow_id).result() == 4
                found = rows(stage, handle.workflow_id, "numbers")
                assert [row["offset"] for row in found] == [0, 1, 2, 3, 4]
                assert [row["function_id"] for row in found] == [1, 2, 3, 4, 5]

        Stage(venue).play(scene)

    def test_fork_has_what_was_written_below_its_step(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, turn = stage.app(), {"value": "old"}

            async def flow() -> None:
                await app.do("write_stream", "s", "kept")
                await app.do("write_stream", "s", turn["value"])
                await app.do("close_stream", "s")

            run = app.workflow(flow)
            async with app:
                handle = await run.start()
                await handle.result()
                cut = await app.do("fork_workflow", handle.workflow_id, 3)
                await app.retrieve(cut.workflow_id).result()
                assert await app.do("get_all_stream_entries", cut.workflow_id) == {"s": ["kept", "old"]}
                assert await app.do("get_all_stream_entries", handle.workflow_id) == {"s": ["kept", "old"]}
                assert len(rows(stage, cut.workflow_id, "s")) == 3

        Stage(venue).play(scene)

    def test_who_reads_misses_nothing_of_a_workflow_that_is_tried_again(self, venue: Venue) -> None:
        """What it wrote before the failure is kept. The offsets of the rest, which the readers have, are not reused."""

        async def scene(stage: Stage) -> None:
            app, gate, failures = stage.app(), stage.gate(), [ValueError("once")]

            async def fails_once() -> str:
                await app.do("write_stream", "s", "step")
                if failures:
                    raise failures.pop()
                return "done"

            step = app.step(fails_once)

            async def flow() -> str:
                await app.do("write_stream", "s", "first")
                try:
                    found: str = await step()
                except ValueError:
                    await app.do("write_stream", "s", "sorry")
                    await gate()
                    raise
                await app.do("write_stream", "s", "last")
                return found

            run = app.workflow(flow, retry=Retry(attempts=2, interval=0))
            async with app:
                handle = await run.start()
                await gate.reached()
                read = partial(app.raw.read_stream, handle.workflow_id, "s", timeout=PATIENCE)
                plain, knowing = read(), read(resets=True)
                for reader in (plain, knowing):
                    assert [await following(app, reader) for _ in range(2)] == ["first", "sorry"]
                gate.open()
                assert await handle.result() == "done"
                assert await values(app, plain) == ["step", "last"]
                assert await values(app, knowing) == [StreamReset(1), "step", "last"]
                assert await app.do("get_all_stream_entries", handle.workflow_id) == {"s": ["first", "step", "last"]}
                assert [row["offset"] for row in rows(stage, handle.workflow_id, "s")] == [0, 2, 3, 4]

        Stage(venue).play(scene)

    def test_deleting_a_run_deletes_its_streams(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            flow = counting(app, 3)
            async with app:
                handle = await flow.start()
                await handle.result()
                assert len(rows(stage, handle.workflow_id, "numbers")) == 4
                await app.do("delete_workflow", handle.workflow_id)
                assert rows(stage, handle.workflow_id, "numbers") == []

        Stage(venue).play(scene)

    def test_document_carries_streams(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            flow = counting(app, 3)
            async with app:
                handle = await flow.start()
                await handle.result()
                document = await app.do("export_workflow", handle.workflow_id)
                assert [entry["offset"] for entry in document["streams"]] == [0, 1, 2, 3]
                again = f"{handle.workflow_id}-again"
                await app.do("import_workflow", document, workflow_id=again)
                reader = app.raw.read_stream(again, "numbers", timeout=PATIENCE)
                assert await values(app, reader) == [0, 1, 2]
                document["streams"][1]["offset"] = 0
                with pytest.raises(ConfigurationError, match="same offset"):
                    await app.do("import_workflow", document, workflow_id=f"{again}-wrong")

        Stage(venue).play(scene)


class DispatchStateContract:
    """The state of event dispatchers: a higher number wins."""

    def test_higher_number_wins_and_any_wins_over_none(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            name = ("service", "function", stage.version)
            async with app:
                assert await app.do("get_dispatch_state", *name) is None
                first = await app.do("put_dispatch_state", *name, "a")
                assert (first.value, first.update_seq) == ("a", None)
                assert first.update_time > 1_600_000_000
                for value, seq, stored in [
                    ("b", 2**62, ("b", 2**62)),
                    ("c", 5, ("b", 2**62)),
                    ("d", 2**62, ("b", 2**62)),
                    ("e", None, ("b", 2**62)),
                    (None, 2**62 + 1, (None, 2**62 + 1)),
                ]:
                    put = await app.do("put_dispatch_state", *name, value, update_seq=seq)
                    assert (put.value, put.update_seq) == stored
                    assert await app.do("get_dispatch_state", *name) == put

        Stage(venue).play(scene)

    def test_without_numbers_the_later_wins(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            name = ("service", "function", stage.version)
            async with app:
                for value, moment, stored in [("a", 100.5, "a"), ("b", 99.25, "a"), ("c", 100.75, "c")]:
                    put = await app.do("put_dispatch_state", *name, value, update_time=moment)
                    assert put.value == stored
                assert put.update_time == 100.75
                with pytest.raises(ConfigurationError, match="64 bits"):
                    await app.do("put_dispatch_state", *name, "x", update_seq=2**63)

        Stage(venue).play(scene)
