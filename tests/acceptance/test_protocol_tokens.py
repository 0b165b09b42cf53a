"""I1: each statement that writes for a run asks by itself for the run's token, and whether the run has ended.

A run that was released and claimed again is PENDING, so its status alone refuses nobody. Here every write is made under
the token of an execution that has lost its run so, or whose run has ended.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.db import ConnectionManager
from holdfast.db.migrations.migrator import Migrator
from holdfast.errors import QueryFailed, Superseded
from holdfast.model.workflow import WorkflowStatus
from holdfast.testing.run_rows import LONG_FROM_NOW, RunRows
from holdfast.workflows.facts import FinishRuns, HandOverRuns, RecordSteps, RetryRuns, StartChildren, StartRuns
from holdfast.workflows.parking import Wait, parking_queries
from holdfast.workflows.parking.facts import PutAwayRuns
from holdfast.workflows.queries import stream_queries
from holdfast.workflows.transactions.queries import transaction_queries

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

RUN, CHILD = "run", "child"
KINDS = ["sqlite", "postgres", "mariadb"]


def writing(rows: RunRows) -> dict[str, Callable[[], Awaitable[Any]]]:
    """Return all that an execution writes for its run; each says Superseded, or that nothing was touched."""
    queries, token, manager, write = rows.queries, rows.token(RUN), rows.manager, rows.write
    transactions = transaction_queries(manager.dialect, "holdfast")
    live = stream_queries(manager.dialect, "holdfast")["live_guard"]
    parking = parking_queries(manager.dialect, "holdfast")
    record = RecordSteps(queries, progress=True)
    start = StartRuns(queries, application_id="test", executor_id="local", incarnation="first")
    step = (RUN, token, 4, "step", "3", "mark", "1", None, None, "portable_json", 0)
    child = (CHILD, "f", None, None, "{}", "portable_json", "child", RUN, "mark", *[None] * 6, "v")
    said = {"position": 4, "name": "step", "identity": "3", "fingerprint": "mark", "output": "1", "duration_ms": 0}
    whose, format_ = {"id": RUN, "token": token}, {"serialization": "portable_json"}
    return {
        "result": lambda: write(FinishRuns(queries), RUN, token, "SUCCESS", "2", None, "portable_json"),
        "error": lambda: write(FinishRuns(queries), RUN, token, "ERROR", None, "{}", "portable_json"),
        "retry": lambda: write(RetryRuns(queries), RUN, token, 2, 1000),
        "put away": lambda: write(
            PutAwayRuns(queries, parking), RUN, token, LONG_FROM_NOW, "sleep", Wait(results=("another",))
        ),
        "hand-over": lambda: write(HandOverRuns(queries), RUN, token),
        "step": lambda: write(record, *step),
        "child": lambda: write(StartChildren(record, start), step, child),
        "transaction": lambda: refused(manager.execute(transactions["transaction_record"], **whose, **said, **format_)),
        "progress": lambda: manager.execute(transactions["transaction_progressed"], **whose),
        "end over the cap": lambda: manager.execute(queries["run_exhausted"], **whose, error="{}", **format_),
        "live entry": lambda: manager.fetch_batch(live, [(RUN, token, "3", 4)]),
    }


async def refused(writing: Awaitable[int]) -> int:
    """Return how many rows were written; on PostgreSQL a record without its run breaks a constraint instead."""
    try:
        return await writing
    except QueryFailed as error:
        if "not-null" not in str(error):
            raise
        return 0


def check_that_nothing_is_written(url: str, status: WorkflowStatus, told: set[str], **columns: Any) -> None:
    """Write all of it for a run in *status*; *told* are those that are acknowledged, since they want nothing more."""

    async def scene() -> None:
        async with ConnectionManager(url) as manager:
            await Migrator(manager).migrate()
            rows = RunRows(manager)
            await rows.insert(status, RUN, steps=3, **columns)
            before = await rows.row(RUN), await rows.steps(RUN)
            for what, write in writing(rows).items():
                outcome = await write()
                assert outcome is True if what in told else isinstance(outcome, Superseded) or not outcome, what
                assert (await rows.row(RUN), await rows.steps(RUN)) == before, what
                assert await rows.row(CHILD) is None, what

    asyncio.run(scene())


@pytest.mark.parametrize("kind", KINDS)
def test_i1_execution_whose_run_another_has_claimed_writes_nothing(
    kind: str, fresh_database: Callable[[str], str]
) -> None:
    check_that_nothing_is_written(
        fresh_database(kind), WorkflowStatus.PENDING, {"hand-over"}, owner_xid="of another execution"
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("status", [WorkflowStatus.SUCCESS, WorkflowStatus.ERROR])
def test_i1_execution_whose_run_has_ended_writes_nothing(
    kind: str, status: WorkflowStatus, fresh_database: Callable[[str], str]
) -> None:
    """An ended run keeps its token, by which an outcome whose reply was lost is known again."""
    check_that_nothing_is_written(fresh_database(kind), status, {"result", "error"}, recovery_attempts=0)
