"""LangGraph's own savers in both colours. sqlite:///... | postgresql://...; what to do comes line by line."""

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from yard.savers import Measured


async def _opened(url: str, afterwards: AsyncExitStack) -> Measured:
    blocking: Any
    waiting: Any
    if url.startswith("sqlite:///"):
        from langgraph.checkpoint.sqlite import SqliteSaver
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        path = url.removeprefix("sqlite:///")
        blocking = afterwards.enter_context(SqliteSaver.from_conn_string(f"{path}-sync"))
        waiting = await afterwards.enter_async_context(AsyncSqliteSaver.from_conn_string(f"{path}-async"))
    else:
        from langgraph.checkpoint.postgres import PostgresSaver
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

        blocking = afterwards.enter_context(PostgresSaver.from_conn_string(url))
        waiting = await afterwards.enter_async_context(AsyncPostgresSaver.from_conn_string(url))
    blocking.setup()
    await waiting.setup()
    return Measured(blocking, waiting)


async def main() -> None:
    async with AsyncExitStack() as afterwards:
        measured = await _opened(sys.argv[1], afterwards)
        while line := await asyncio.to_thread(sys.stdin.readline):
            print(json.dumps({"spans": await measured.do(**json.loads(line))}), flush=True)


asyncio.run(main())
