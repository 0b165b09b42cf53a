"""What the doctor sees in the tables: executors that are not heard of, and runs that nobody takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.cli.findings import Finding, problem
from holdfast.cli.output import moment
from holdfast.model.workflow import INTERNAL_QUEUE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.db.session import Row


def executor_findings(executors: Sequence[Row]) -> list[Finding]:
    """Judge executors by when they were heard of last."""
    found = [Finding("executors", f"{len(executors)} registered")]
    for row in executors:
        who = f"{row['executor_id']} ({row['hostname']}, process {row['pid']})"
        silent = row["now_ms"] - row["last_beat_at"]
        if silent > row["lease_ms"]:
            found.append(
                problem(
                    "executor",
                    f"{who} has been silent for {silent / 1000:.0f} s, its lease is {row['lease_ms'] / 1000:.0f} s",
                    "If the process is gone, launch any executor: it takes over the runs and removes this one. If it "
                    "lives, it cannot reach the database: look at its log.",
                )
            )
        elif row["stalled_since"] is not None:
            found.append(
                problem(
                    "executor",
                    f"{who} has a blocked event loop since {moment(row['stalled_since'])}",
                    "Its log names the function that blocks: make it a step, or give it a thread.",
                )
            )
    return found


def waiting_findings(waiting: Iterable[Row], executors: Sequence[Row]) -> list[Finding]:
    """Say of runs that wait what an executor lacks, as far as the tables tell."""
    alive = [row for row in executors if row["now_ms"] - row["last_beat_at"] <= row["lease_ms"]]
    versions = {row["application_version"] for row in alive}
    listens = [msgspec.json.decode(row["queues"], type=list[str]) for row in alive]
    queues = {INTERNAL_QUEUE}.union(*listens) if all(listens) else None  # who names none listens to all there are
    found = [
        problem(
            "waiting runs",
            f"{row['runs']} of {row['name']} since {moment(row['waiting_since'])}",
            _missing(row, versions, queues),
        )
        for row in waiting
    ]
    return found or [Finding("waiting runs", "none for long")]


def _missing(row: Row, versions: set[str], queues: set[str] | None) -> str:
    if not versions:
        return "No executor is alive: launch the application."
    if row["application_version"] is not None and row["application_version"] not in versions:
        return (
            f"They wait for version {row['application_version']}, which no living executor has: launch it, name it in "
            "compatible_versions of another, or fork the runs to a version that is there."
        )
    if queues is not None and row["queue_name"] not in queues:
        return f"No living executor listens to the queue {row['queue_name']}: launch one that does."
    return f"Living executors are all busy, or none has the workflow {row['name']}: look at their capacity and code."


__all__ = ["executor_findings", "waiting_findings"]
