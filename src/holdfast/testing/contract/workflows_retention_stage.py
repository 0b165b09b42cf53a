"""Where the suites of retention play: workflows that end, and a pruner beside them.

A pruner has no colour: it works on a manager of its own, as in another process. The runs it meets are of either colour.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from holdfast.db import ConnectionManager
from holdfast.db.migrations.migrator import SCHEMA
from holdfast.model.world import RealWorld
from holdfast.testing.colours import Colour
from holdfast.workflows.retention import Pruner, PruneReport, Retention, retention_queries

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from holdfast.testing.contract.workflows_stage import App, Flow, Stage


async def increment(number: int) -> int:
    return number + 1


async def apart(stage: Stage, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Run *work* on a loop: this one in the async colour, one of its own in the sync colour."""
    return await work() if stage.colour is Colour.ASYNC else asyncio.run(work())


def pruner_on(stage: Stage, manager: ConnectionManager, **options: Any) -> Pruner:
    """Return a pruner that sees the clock of the stage."""
    queries = retention_queries(manager.dialect, SCHEMA, clock_offset_ms=stage.settings.get("clock_offset_ms"))
    return Pruner(manager, queries, RealWorld(), **{"pause": 0, **options})


async def prune(stage: Stage, *policies: Retention, batch: int = 200, **options: Any) -> PruneReport:
    """Prune once, from another connection."""

    async def work() -> PruneReport:
        async with ConnectionManager(stage.url) as manager:
            return await pruner_on(stage, manager, batch=batch).prune(policies, **options)

    report: PruneReport = await apart(stage, work)
    return report


def counts(report: PruneReport) -> list[tuple[int, int]]:
    """Return what each policy matched and deleted."""
    return [(each.matched, each.deleted) for each in report.policies]


def flow_of(stage: Stage, app: App, name: str = "flow") -> tuple[Flow, str]:
    """Register a workflow of two steps under a name that no other test has; return it and the name."""
    step = app.step(increment, name=f"{stage.version}-{name}-step")

    async def two(number: int) -> int:
        found: int = await step(await step(number))
        return found

    unique = f"{stage.version}-{name}"
    return app.workflow(two, name=unique), unique


def there(stage: Stage, name: str) -> set[str]:
    """Return the ids of the runs of a workflow."""
    rows = stage.rows(f"SELECT workflow_uuid FROM {stage.table('workflow_status')} WHERE name = ?", name)
    return {row["workflow_uuid"] for row in rows}


def set_run(stage: Stage, workflow_id: str, **columns: Any) -> None:
    """Change the row of a run behind the library's back."""
    names = ", ".join(f"{each} = ?" for each in columns)
    done = stage.execute(
        f"UPDATE {stage.table('workflow_status')} SET {names} WHERE workflow_uuid = ?", *columns.values(), workflow_id
    )
    assert done == 1


async def ended(flow: Flow, count: int) -> list[str]:
    """Run a workflow so many times; return the ids, oldest first."""
    handles = [await flow.start(number) for number in range(count)]
    assert [await each.result() for each in handles] == [number + 2 for number in range(count)]
    return [each.workflow_id for each in handles]


def created_apart(stage: Stage, ids: list[str]) -> None:
    """Let the runs have been created one second after the other."""
    first = stage.run(ids[0])["created_at"] - 1000 * len(ids)
    for number, each in enumerate(ids):
        set_run(stage, each, created_at=first + 1000 * number)
