"""A web page shows how far a long run has come, as it happens, over server-sent events.

The workflow writes to a stream; the page reads it from where it was, also after it was reloaded or the server was
started anew: the offset of the last entry is the id of the event, which the browser sends back by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.responses import StreamingResponse
from starlette.routing import Route

from holdfast import AsyncHoldfast

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request

app = AsyncHoldfast("imports.sqlite")


@app.step
async def load(page: int) -> int:
    return page * 10


@app.workflow
async def import_pages(pages: int) -> int:
    rows = 0
    for page in range(1, pages + 1):
        rows += await load(page)
        await app.write_stream("progress", {"page": page, "of": pages, "rows": rows})
    await app.close_stream("progress")
    return rows


async def start(request: Request) -> StreamingResponse:
    """Begin a run, or find the one that was begun, and tell how far it is."""
    run_id = request.path_params["run_id"]
    await import_pages.options(workflow_id=run_id, on_conflict="return_existing").start(5)
    seen = int(request.headers.get("last-event-id", "-1"))

    async def events() -> AsyncIterator[str]:
        reader = app.read_stream(run_id, "progress", offset=seen + 1)
        async for entry in reader:
            yield f"id: {reader.offset - 1}\ndata: page {entry['page']} of {entry['of']}, {entry['rows']} rows\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")


@contextlib.asynccontextmanager
async def lifespan(_: Starlette) -> AsyncIterator[None]:
    async with app:
        yield


web = Starlette(routes=[Route("/imports/{run_id}", start)], lifespan=lifespan)


async def main() -> None:
    """Serve, and be the browser: read two entries, lose the connection, and go on where it broke."""
    server = uvicorn.Server(uvicorn.Config(web, port=0, log_level="warning"))
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 -- uvicorn announces it in this way alone
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as browser:
        last = await read(browser, {}, most=2)
        print("(reconnected)")
        await read(browser, {"Last-Event-ID": last}, most=100)
    server.should_exit = True
    await serving


async def read(browser: httpx.AsyncClient, headers: dict[str, str], most: int) -> str:
    last = ""
    async with browser.stream("GET", "/imports/monday", headers=headers) as response:
        shown = 0
        async for line in response.aiter_lines():
            name, _, value = line.partition(": ")
            if name == "id":
                last = value
            elif name == "data":
                print(value)
                shown += 1
                if shown == most:
                    break
    return last


if __name__ == "__main__":
    asyncio.run(main())
