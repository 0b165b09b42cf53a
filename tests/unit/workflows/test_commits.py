"""Commits in other databases beside the end of their execution: none begins after it, and who has begun may go on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from holdfast import AsyncHoldfast
from holdfast.core.identity import Branch
from holdfast.workflows.operations.place import WorkflowPlace
from holdfast.workflows.running.commits import TooLate
from holdfast.workflows.running.run import Run

if TYPE_CHECKING:
    from pathlib import Path


def run_of_a_workflow(path: Path) -> Run:
    app = AsyncHoldfast(path)

    @app.workflow
    async def books() -> None:
        pass

    [definition] = app._engine.registry.workflows.values()
    return Run(definition, "a-run", "a-token", (), {})


def test_transaction_that_has_begun_to_commit_may_try_again_while_the_end_waits_and_no_other_may(
    tmp_path: Path,
) -> None:
    run = run_of_a_workflow(tmp_path / "runs.db")
    under_way, late = WorkflowPlace(run, Branch(), None), WorkflowPlace(run, Branch(), None)

    async def scene() -> None:
        run.commits().begin(under_way)
        commits = run.closing()
        assert commits is not None
        end = asyncio.create_task(commits.ended())
        await asyncio.sleep(0)
        with pytest.raises(TooLate):
            commits.begin(late)
        commits.begin(under_way)  # whose first try may have committed, which only its record says
        assert not end.done()
        commits.end(under_way)
        await asyncio.wait_for(end, 60)

    asyncio.run(scene())


def test_first_transaction_of_a_run_whose_end_is_being_written_does_not_commit(tmp_path: Path) -> None:
    run = run_of_a_workflow(tmp_path / "runs.db")
    assert run.closing() is None
    with pytest.raises(TooLate):
        run.commits().begin(WorkflowPlace(run, Branch(), None))
