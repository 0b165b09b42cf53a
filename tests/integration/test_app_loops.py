"""An async application or client that is used from another event loop than its own says so, and is none the worse."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import AsyncHandle, AsyncHoldfast
from holdfast.client import AsyncClient
from holdfast.errors import WrongLoop

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


async def on_another_loop(call: Callable[[], Awaitable[Any]]) -> Any:
    """Await what *call* returns on a loop of its own, in another thread."""

    async def awaiting() -> Any:
        async with asyncio.timeout(60):
            return await call()

    return await asyncio.to_thread(asyncio.run, awaiting())


def test_waits_and_closing_on_another_loop_are_refused(fresh_database: Callable[[str], str]) -> None:
    url = fresh_database("sqlite")
    app = AsyncHoldfast(url)

    @app.workflow
    async def double(number: int) -> int:
        return 2 * number

    async def main() -> None:
        async with app, AsyncClient(url) as client:
            handle = await double.start(2)
            for call in (
                handle.result,
                app.retrieve_workflow(handle.workflow_id).result,
                client.retrieve_workflow(handle.workflow_id).result,
                lambda: anext(aiter(app.read_stream(handle.workflow_id, "key"))),
                lambda: anext(aiter(client.read_stream(handle.workflow_id, "key"))),
                lambda: app.get_event(handle.workflow_id, "key"),
                lambda: client.get_event(handle.workflow_id, "key"),
                app.close,
            ):
                with pytest.raises(WrongLoop):
                    await on_another_loop(call)
            assert await handle.result() == 4
            assert await client.retrieve_workflow(handle.workflow_id).result() == 4
            assert await double(3) == 6

    asyncio.run(main())


@pytest.mark.parametrize("where", ["another thread", "the same thread"])
def test_loop_that_has_ended_is_named_by_whatever_is_asked(fresh_database: Callable[[str], str], where: str) -> None:
    """As under a test runner that has a loop for each test: no call waits for ever, or speaks of parts of ours."""
    app = AsyncHoldfast(fresh_database("sqlite"))

    @app.workflow
    async def double(number: int) -> int:
        return 2 * number

    async def launched() -> AsyncHandle[int]:
        await app.launch()
        await app.register_queue("numbers")
        return await double.start(2)

    handle = asyncio.run(launched())
    queued = double.options(queue_name="numbers")
    calls: list[Callable[[], Awaitable[Any]]] = [
        lambda: double(3),
        lambda: double.start(3),
        lambda: queued.enqueue(3),
        lambda: queued.enqueue_many([double.call(3)]),
        lambda: queued.debounce("key", 1, 3),
        lambda: app.enqueue("double", [3], queue_name="numbers"),
        lambda: app.execute(double, {"number": 3}),
        app.list_workflows,
        lambda: app.cancel_workflow("run"),
        lambda: app.send("run", "hello"),
        lambda: app.get_event("run", "key", timeout=1),
        lambda: anext(aiter(app.read_stream("run", "key"))),
        lambda: app.wait_first([handle]),
        lambda: app.wait_all([handle]),
        handle.result,
        handle.status,
    ]

    async def asked() -> None:
        for call in calls:
            with pytest.raises(WrongLoop, match="The application was launched on another event loop"):
                await asyncio.wait_for(call(), 60)

    if where == "the same thread":
        asyncio.run(asked())
    else:
        asyncio.run(on_another_loop(asked))
    asyncio.run(app.close())
