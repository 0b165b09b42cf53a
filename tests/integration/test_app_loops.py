"""An async application or client that is used from another event loop than its own says so, and is none the worse."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import AsyncHoldfast
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
                app.close,
            ):
                with pytest.raises(WrongLoop):
                    await on_another_loop(call)
            assert await handle.result() == 4
            assert await client.retrieve_workflow(handle.workflow_id).result() == 4
            assert await double(3) == 6

    asyncio.run(main())
