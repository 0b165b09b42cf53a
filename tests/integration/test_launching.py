"""Between the claim of a run and its beginning: an error there leaves nothing behind that keeps others waiting."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import AsyncHoldfast
from holdfast.errors import Unavailable
from holdfast.workflows.ownership.launching import Launching

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize("place", ["_histories", "_whole"])
def test_runs_that_could_not_be_begun_take_no_room_from_others(
    place: str, fresh_database: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real, failures = getattr(Launching, place), 3

    async def failing(launching: Launching, *args: Any) -> Any:
        nonlocal failures
        if failures:
            failures -= 1
            raise Unavailable("The database is away for a moment.")
        return await real(launching, *args)

    monkeypatch.setattr(Launching, place, failing)

    async def scene() -> None:
        app = AsyncHoldfast(fresh_database("sqlite"), lease=1, max_run_bytes=4_000_000)

        @app.workflow
        async def length(text: str) -> int:
            return len(text)

        async with app:
            await app.register_queue("large")
            large = length.options(queue_name="large")
            async with asyncio.timeout(60):
                for _ in range(3):  # three of them would not fit beside three that are held for nothing
                    assert await (await large.enqueue("x" * 1_500_000)).result() == 1_500_000
        assert failures == 0

    asyncio.run(scene())
