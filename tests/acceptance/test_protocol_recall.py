"""I9: what an execution has written is found again by the key that was stored with it, and by nothing else.

After a lost reply each kind of fact is asked whether it is there. Who took a like fact of another execution for its own
would acknowledge what was never written; who did not find its own would write it twice.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.db import ConnectionManager
from holdfast.testing.run_rows import LONG_FROM_NOW, RunRows
from holdfast.workflows.facts import (
    STARTED,
    EnqueueRuns,
    Existing,
    FinishRuns,
    RecordSteps,
    RetryRuns,
    StartChildren,
    StartRuns,
)
from holdfast.workflows.parking import Wait, parking_queries
from holdfast.workflows.parking.facts import PutAwayRuns

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.db.pipeline.operation import Kind, Values

STRANGER = "of another execution"


class Facts(RunRows):
    """The kinds of facts, and a row of each under a key of the caller's."""

    def __init__(self, manager: ConnectionManager) -> None:
        super().__init__(manager)
        self.starts = StartRuns(self.queries, application_id="test", executor_id="local", incarnation="first")
        self.enqueues = EnqueueRuns(self.queries, application_id="test")
        self.records = RecordSteps(self.queries)
        self.children = StartChildren(self.records, self.starts)
        self.parking = PutAwayRuns(self.queries, parking_queries(manager.dialect, "holdfast"))

    def start(self, run_id: str, key: str, parent: str | None = None) -> Values:
        return (run_id, "f", None, None, "{}", "portable_json", key, parent, "mark", *[None] * 6, "v")

    def enqueue(self, run_id: str, key: str) -> Values:
        return (run_id, "ENQUEUED", *self.start(run_id, key)[1:], run_id, None, 0, None, None, None)

    def step(self, run_id: str, token: str, child: str | None = None) -> Values:
        return (run_id, token, 4, "step", "3", "mark", "1", None, child, "portable_json", 0)

    async def recall(self, kind: Kind[Any], row: Values) -> Any:
        [found] = await self.manager.run(lambda transaction: kind.recall(transaction, [row]))
        return found


def facts_of(facts: Facts, run_id: str, key: str) -> dict[str, tuple[Kind[Any], Values]]:
    """Return what is written of a run, or with it, by whoever has this key."""
    queries, child, wait = facts.queries, f"child-of-{run_id}", Wait(results=("another",))
    finish = (run_id, key, "SUCCESS", "2", None, "portable_json")
    return {
        "start": (facts.starts, facts.start(f"new-{run_id}", key)),
        "enqueue": (facts.enqueues, facts.enqueue(f"new-{run_id}", key)),
        "step": (facts.records, facts.step(run_id, key)),
        "child": (facts.children, (facts.step(run_id, key, child), facts.start(child, key, run_id))),
        "outcome": (FinishRuns(queries), finish),
        "retry": (RetryRuns(queries), (run_id, key, 2, 1000)),
        "put away": (facts.parking, (run_id, key, LONG_FROM_NOW, "sleep", wait)),
    }


def play(migrated_url: str, scene: Callable[[Facts], Awaitable[None]]) -> None:
    async def played() -> None:
        async with ConnectionManager(migrated_url) as manager:
            await scene(Facts(manager))

    asyncio.run(played())


@pytest.mark.parametrize("what", ["start", "enqueue", "step", "child", "outcome", "retry", "put away"])
def test_i9_fact_is_found_again_by_its_own_key_alone(migrated_url: str, what: str) -> None:
    async def scene(facts: Facts) -> None:
        run_id = await facts.insert()
        kind, row = facts_of(facts, run_id, facts.token(run_id))[what]
        _, like = facts_of(facts, run_id, STRANGER)[what]
        assert await facts.recall(kind, row) is None
        written = await facts.write(kind, *row)
        assert written is STARTED or written is True
        assert await facts.recall(kind, row) is written
        assert await facts.recall(kind, like) is None

    play(migrated_url, scene)


def test_i9_child_that_was_there_before_is_found_again_as_one_that_was_there(migrated_url: str) -> None:
    """The parent must not take it for one that it has begun: another execution has its token."""

    async def scene(facts: Facts) -> None:
        run_id = await facts.insert()
        child = await facts.insert(run_id=f"child-of-{run_id}")
        kind, row = facts_of(facts, run_id, facts.token(run_id))["child"]
        for outcome in await facts.write(kind, *row), await facts.recall(kind, row):
            assert isinstance(outcome, Existing)
            assert outcome.row["owner_xid"] == facts.token(child)

    play(migrated_url, scene)
