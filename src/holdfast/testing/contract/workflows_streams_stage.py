"""What the suites of streams share: reading in either colour, looking at the rows, and code that goes on beside."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import TYPE_CHECKING, Any

from holdfast.db import DialectName
from holdfast.db.session import run_sync
from holdfast.testing.colours import Colour

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from holdfast.db.session import Row
    from holdfast.testing.contract.workflows_stage import App, Flow, Stage


async def values(app: App, reader: Any) -> list[Any]:
    """Read to the end, in the application's colour."""
    if app.colour is Colour.ASYNC:
        return [value async for value in reader]
    return list(reader)


async def following(app: App, reader: Any) -> Any:
    """Return the next value of a reader, in the application's colour."""
    return await anext(reader) if app.colour is Colour.ASYNC else next(reader)


def rows(stage: Stage, workflow_id: str, key: str) -> list[Row]:
    """Return the rows of a stream by plain SQL."""
    mark = "`" if stage.dialect is DialectName.MYSQL else '"'
    found = f"SELECT * FROM {stage.table('streams')} WHERE workflow_uuid = ? AND {mark}key{mark} = ?"
    return stage.rows(f"{found} ORDER BY {mark}offset{mark}", workflow_id, key)


def aside(app: App, body: Callable[[], Coroutine[Any, Any, None]]) -> object:
    """Have *body* go on beside the calling code, in its context, in a task or a thread; return what keeps it alive."""
    if app.colour is Colour.ASYNC:
        return asyncio.get_running_loop().create_task(body())
    context = contextvars.copy_context()
    thread = threading.Thread(target=lambda: context.run(lambda: run_sync(body())), daemon=True)
    thread.start()
    return thread


def counting(app: App, stop: int, key: str = "numbers") -> Flow:
    """Return a workflow that writes the numbers from 0 on, and closes its stream."""

    async def count() -> int:
        for n in range(stop):
            await app.do("write_stream", key, n)
        await app.do("close_stream", key)
        return stop

    return app.workflow(count)
