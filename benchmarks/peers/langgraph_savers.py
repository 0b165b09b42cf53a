"""LangGraph's own checkpoint savers, one call after the other, in both colours.

sqlite:///... | postgresql://..., then how many CALLS.
"""

import asyncio
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from yard.savers import measure_async, measure_sync


def _sync(url: str, calls: int) -> dict[str, float]:
    if url.startswith("sqlite:///"):
        from langgraph.checkpoint.sqlite import SqliteSaver

        with SqliteSaver.from_conn_string(url.removeprefix("sqlite:///")) as saver:
            saver.setup()
            return measure_sync(saver, calls)
    from langgraph.checkpoint.postgres import PostgresSaver

    with PostgresSaver.from_conn_string(url) as saver:
        saver.setup()
        return measure_sync(saver, calls)


async def _async(url: str, calls: int) -> dict[str, float]:
    if url.startswith("sqlite:///"):
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        async with AsyncSqliteSaver.from_conn_string(url.removeprefix("sqlite:///")) as saver:
            await saver.setup()
            return await measure_async(saver, calls)
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

    async with AsyncPostgresSaver.from_conn_string(url) as saver:
        await saver.setup()
        return await measure_async(saver, calls)


if __name__ == "__main__":
    print(json.dumps(_sync(sys.argv[1], int(sys.argv[2])) | asyncio.run(_async(sys.argv[1], int(sys.argv[2])))))
