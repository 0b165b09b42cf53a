"""Executions beside each other, and what one of them has left behind: only who owns the run goes on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from holdfast import AsyncHoldfast
from holdfast.errors import Superseded
from holdfast.workflows.running.run import Run

if TYPE_CHECKING:
    from pathlib import Path


def test_execution_that_begins_late_and_is_stale_does_not_push_out_the_owner(tmp_path: Path) -> None:
    app = AsyncHoldfast(tmp_path / "runs.db")

    @app.workflow
    async def waits() -> None:
        await asyncio.Event().wait()

    async def scene() -> None:
        async with app:
            handle = await waits.start()
            runner = app._engine.runner
            owner = runner.running[handle.workflow_id]
            stale = Run(owner.definition, owner.id, "an older token", (), {})
            stale.stop(Superseded("another execution owns the run"))
            await runner.execute(stale)
            assert runner.running == {owner.id: owner}

    asyncio.run(scene())


def test_task_that_a_run_has_left_behind_does_nothing_more_when_the_run_has_ended(tmp_path: Path) -> None:
    app = AsyncHoldfast(tmp_path / "runs.db")
    ended, done, left = asyncio.Event(), list[str](), list[asyncio.Task[None]]()

    @app.step
    async def books() -> None:
        done.append("booked")

    async def later() -> None:
        await ended.wait()
        await books()

    @app.workflow
    async def leaves() -> None:
        left.append(asyncio.create_task(later()))

    async def scene() -> None:
        async with app:
            await leaves()
            ended.set()
            with pytest.raises(Superseded, match="the run has ended"):
                await left[0]

    asyncio.run(scene())
    assert done == []
