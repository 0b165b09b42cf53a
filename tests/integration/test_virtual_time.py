"""A test of a user's own that moves the time in which a workflow waits."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from holdfast import AsyncHoldfast
from holdfast.testing.world import VirtualWorld

if TYPE_CHECKING:
    from pathlib import Path

DAY = 86_400.0
LEASE = 0.2  # so that beats, which tell the database's time, come between the jumps


async def _beat(app: AsyncHoldfast) -> None:
    """Wait until the executor has beaten twice, so that one of the beats was begun after this was called."""
    [before] = await app.list_executors()
    async with asyncio.timeout(30):
        while (await app.list_executors())[0].beat_seq < before.beat_seq + 2:
            pass


@pytest.mark.parametrize("verb", ["sleep", "recv", "get_event"])
def test_days_that_pass_one_by_one_add_up(verb: str, tmp_path: Path) -> None:
    async def main() -> None:
        world = VirtualWorld()
        app = AsyncHoldfast(tmp_path / "app.db", world=world, lease=LEASE, put_away_after=100 * DAY)

        @app.workflow
        async def patient() -> object:
            if verb == "sleep":
                await app.sleep(7 * DAY)
                return None
            if verb == "recv":
                return await app.recv("approval", timeout=7 * DAY)
            return await app.get_event(app.workflow_id or "", "approved", timeout=7 * DAY)

        async with app:
            handle = await patient.start()
            ended = asyncio.ensure_future(handle.result())
            for _ in range(7):
                await _beat(app)
                assert not ended.done()
                await world.advance(DAY)
            await world.advance(60)
            assert await asyncio.wait_for(ended, 30) is None

    asyncio.run(main())
