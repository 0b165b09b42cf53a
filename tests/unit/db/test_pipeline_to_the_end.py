"""Writes that are waited for to the end: a cancelled task learns what became of the row it has handed over."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from contextvars import Context
from typing import TYPE_CHECKING

import pytest

from holdfast import faults
from holdfast.db import ConnectionManager, DialectName, Pipeline
from holdfast.errors import Conflict
from holdfast.testing.contract.venue import until
from holdfast.testing.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

LEDGER = Ledger(DialectName.SQLITE)


@asynccontextmanager
async def opened(tmp_path: Path) -> AsyncIterator[tuple[ConnectionManager, Pipeline]]:
    async with ConnectionManager(f"sqlite:///{tmp_path / 'ledger.db'}") as manager:
        await LEDGER.create(manager)
        async with Pipeline(manager) as pipeline:
            yield manager, pipeline


def begun(pipeline: Pipeline, key: str, note: str = "") -> asyncio.Task[str]:
    """Begin a write outside of any transaction the test is in."""
    written = pipeline.write(LEDGER, (key, note, 0), to_the_end=True)
    return asyncio.create_task(written, context=Context())


@pytest.mark.parametrize("times", [1, 3])
def test_write_to_the_end_returns_its_result_however_often_it_is_cancelled(tmp_path: Path, times: int) -> None:
    async def scene() -> None:
        async with opened(tmp_path) as (manager, pipeline):
            async with manager.transaction() as transaction:
                await LEDGER.apply(transaction, [("first", "", 0)])
                task = begun(pipeline, "k")
                await until(lambda: pipeline.unsettled == 1)
                for _ in range(times):
                    task.cancel()
                    await asyncio.sleep(0)
                    await asyncio.sleep(0)
                    assert not task.done()
            assert await task == "k"
            assert task.cancelling() == times

    asyncio.run(scene())


@pytest.mark.parametrize("refused", [False, True])
def test_outcome_that_comes_with_the_cancellation_is_not_lost(tmp_path: Path, refused: bool) -> None:
    async def scene() -> None:
        async with opened(tmp_path) as (manager, pipeline):
            if refused:
                await manager.run(lambda transaction: LEDGER.apply(transaction, [("k", "another", 0)]))
            task = begun(pipeline, "k", "this one")
            loop = asyncio.get_running_loop()

            def cancel() -> None:  # committed, and nobody told: this is the first that the loop hears
                loop.call_soon_threadsafe(task.cancel)

            faults.arm("pipeline.after_commit", cancel)
            try:
                if refused:
                    with pytest.raises(Conflict):
                        await task
                else:
                    assert await task == "k"
            finally:
                faults.disarm()
            assert task.cancelling() == 1

    asyncio.run(scene())
