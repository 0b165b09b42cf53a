"""The contract of those who read streams: clients, workflows that wait, many at once, and the end of everything."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.client import AsyncClient, Client
from holdfast.db.session import run_sync
from holdfast.errors import NotInitialized, WorkflowCancelled
from holdfast.testing.colours import Colour
from holdfast.testing.contract.workflows_stage import PATIENCE, Stage
from holdfast.testing.contract.workflows_streams_stage import following, values

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from holdfast.testing.contract.venue import Venue
    from holdfast.testing.contract.workflows_stage import App, Flow, Gate


def halting(app: App, gate: Gate) -> Flow:
    """Return a workflow that writes, waits at a gate, and writes again."""

    async def write() -> None:
        await app.do("write_stream", "s", "first")
        await gate()
        await app.do("write_stream", "s", "second")

    return app.workflow(write)


async def together(app: App, *parts: Coroutine[Any, Any, Any]) -> list[Any]:
    """Do *parts* side by side, in tasks or threads."""
    if app.colour is Colour.ASYNC:
        return list(await asyncio.gather(*parts))
    found: list[Any] = [None] * len(parts)

    def work(number: int, part: Coroutine[Any, Any, Any]) -> None:
        found[number] = run_sync(part)

    threads = [threading.Thread(target=work, args=each, daemon=True) for each in enumerate(parts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    return found


class StreamReadersContract:
    """Reading from wherever."""

    def test_client_reads_while_the_run_goes_on(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, gate = stage.app(), stage.gate()
            flow = halting(app, gate)
            client: Any = (AsyncClient if app.colour is Colour.ASYNC else Client)(stage.url)
            async with app:
                handle = await flow.start()
                await app.value(client.open())
                reader = client.read_stream(handle.workflow_id, "s", timeout=PATIENCE)
                assert await following(app, reader) == "first"
                gate.open()
                assert await values(app, reader) == ["second"]
                found = await app.value(client.get_all_stream_entries(handle.workflow_id))
                assert found == {"s": ["first", "second"]}
                await app.value(client.close())
                with pytest.raises(NotInitialized):
                    await following(app, client.read_stream(handle.workflow_id, "s"))

        Stage(venue).play(scene)

    def test_many_read_at_once(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, gate = stage.app(), stage.gate()
            flow = halting(app, gate)

            async def opens() -> None:
                await stage.until(lambda: app.raw._engine.feed.waiting == 20)  # noqa: SLF001 -- that nobody is late
                gate.open()

            async with app:
                handle = await flow.start()
                readers = [app.raw.read_stream(handle.workflow_id, "s", timeout=PATIENCE) for _ in range(20)]
                *found, _ = await together(app, *(values(app, reader) for reader in readers), opens())
                assert found == [["first", "second"]] * 20

        Stage(venue).play(scene)

    def test_workflow_that_waits_for_a_value_can_be_cancelled(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, gate = stage.app(), stage.gate()
            flow = halting(app, gate)

            async def wait(workflow_id: str) -> None:
                await following(app, app.raw.read_stream(workflow_id, "s", offset=1))

            waiting = app.workflow(wait)
            async with app:
                source = await flow.start()
                handle = await waiting.start(source.workflow_id)
                await stage.until(lambda: app.raw._engine.feed.waiting)  # noqa: SLF001 -- until it waits
                await app.do("cancel_workflow", handle.workflow_id)
                assert isinstance(await handle.error(), WorkflowCancelled)
                await stage.until(lambda: not app.raw._engine.feed.waiting)  # noqa: SLF001 -- nothing is left behind

        Stage(venue).play(scene)

    def test_reader_learns_that_its_application_is_closed(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, gate = stage.app(), stage.gate()
            flow = halting(app, gate)
            other = stage.app()
            async with app:
                handle = await flow.start()
                await other.launch()
                reader = other.raw.read_stream(handle.workflow_id, "s", offset=1, timeout=PATIENCE)

                async def waits() -> str:
                    try:
                        await following(other, reader)
                    except NotInitialized as error:
                        return str(error)
                    return "nothing"

                async def closes() -> None:
                    await stage.until(lambda: other.raw._engine.feed.waiting)  # noqa: SLF001 -- until it waits
                    await other.close()

                told, _ = await together(app, waits(), closes())
                assert handle.workflow_id in told

        Stage(venue).play(scene)

    def test_process_that_does_not_write_is_told_by_polling(self, venue: Venue) -> None:
        """No hints: the reader looks by itself."""

        async def scene(stage: Stage) -> None:
            app, other, gate = stage.app(notify=False), stage.app(notify=False), stage.gate()
            flow = halting(app, gate)
            async with app, other:
                handle = await flow.start()
                reader = other.raw.read_stream(handle.workflow_id, "s", timeout=PATIENCE)
                assert await following(other, reader) == "first"
                gate.open()
                assert await values(other, reader) == ["second"]

        Stage(venue).play(scene)
