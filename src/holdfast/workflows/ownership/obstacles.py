"""What keeps runs from going on: said in the error of a wait that timed out, and warned of at launch."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from holdfast.errors import DatabaseError, HoldfastError
from holdfast.model.workflow import INTERNAL_QUEUE, WorkflowStatus

if TYPE_CHECKING:
    from collections.abc import Collection

    from holdfast.db.manager import ConnectionManager
    from holdfast.db.queries.queries import Queries
    from holdfast.db.session import Row

logger = logging.getLogger("holdfast.workflows")

_PATIENCE = 2.0  # seconds: a wait that has timed out is not prolonged by a database that is away
_COUNTED = 10_000
_NAMED = 5
_LIMITS = ("concurrency", "worker_concurrency", "partition_concurrency")
_RATES = ("rate_limit", "partition_rate_limit")


async def not_ended(
    manager: ConnectionManager,
    queries: Queries,
    workflow_id: str,
    limit: float,
    *,
    versions: Collection[str] = (),
    queues: Collection[str] = (),
) -> TimeoutError:
    """Return the ``TimeoutError`` of a wait of *limit* seconds for a run; its message says what the run waits for.

    The run itself goes on. This process can run *versions*, and has *queues* that no other process knows.
    """
    try:
        async with asyncio.timeout(_PATIENCE):
            row = await manager.fetchone(queries["run_standing"], id=workflow_id)
    except (TimeoutError, HoldfastError):
        row = None
    stands = "" if row is None else f": it is {row['status']}{_waits_for(row, versions, queues)}"
    return TimeoutError(f"The run {workflow_id} has not ended within {limit:g} s{stands}.")


def _waits_for(row: Row, versions: Collection[str], queues: Collection[str]) -> str:
    lacking = _lacking(row, versions, queues)
    match row["status"]:
        case WorkflowStatus.PENDING:
            return f" in the executor {row['executor_id']}, and goes on"
        case WorkflowStatus.ENQUEUED:
            return lacking or _turn(row)
        case WorkflowStatus.DELAYED:
            return lacking or ", and goes on when its time, or what it waits for, has come"
        case _:
            return " now"


async def version_gone(
    manager: ConnectionManager, queries: Queries, workflow_id: str, versions: Collection[str]
) -> str | None:
    """Return the application version of a run if no living process has it; this one can run *versions*."""
    row = await manager.fetchone(queries["run_standing"], id=workflow_id)
    return None if row is None else _version_gone(row, versions)


def _version_gone(row: Row, versions: Collection[str]) -> str | None:
    version: str | None = row["application_version"]
    return None if version in versions or row["has_executor"] else version


def _lacking(row: Row, versions: Collection[str], queues: Collection[str]) -> str | None:
    """Return what a run waits for that is not there; None if nothing is known to be missing."""
    version, queue = _version_gone(row, versions), row["queue_name"]
    if version is not None:
        return (
            f" for the application version {version}, which no living process has: launch one that does, or that names "
            "it in compatible_versions, or fork the run with another application_version"
        )
    if queue not in {INTERNAL_QUEUE, None, *queues} and row["registered"] is None:
        return f" in the queue {queue}, which is not registered: register_queue({queue!r}) lets it go on"
    return f" in the queue {queue}, which is paused" if row["paused"] else None


def _turn(row: Row) -> str:
    """Return what a run that lacks nothing waits for to be claimed: a process, and the limits of its queue."""
    limits = [f"{each}={row[each]}" for each in _LIMITS if row[each] is not None]
    limits += [
        f"{each}_max={row[f'{each}_max']} in {row[f'{each}_period_sec']:g} s"
        for each in _RATES
        if row[f"{each}_max"] is not None
    ]
    if not limits:
        return f", and goes on when a process that has {row['name']!r} takes it"
    return (
        f" in the queue {row['queue_name']} ({', '.join(limits)}), and goes on when these limits let a process that "
        f"has {row['name']!r} take it"
    )


async def tell_left_behind(manager: ConnectionManager, queries: Queries, versions: Collection[str]) -> None:
    """Warn, once a launch, of runs that wait for versions which no living process has, this one included."""
    try:
        rows = await manager.fetch(queries["runs_left_behind"], most=_COUNTED)
    except DatabaseError as error:
        logger.warning("Whether runs wait for other versions could not be found out: %s", error)
        return
    left = {row["application_version"]: row["runs"] for row in rows if row["application_version"] not in versions}
    if left:
        others = f" and {len(left) - _NAMED} others" if len(left) > _NAMED else ""
        logger.warning(
            "%d runs wait for application versions that no living process has: %s. They go on when a process of their "
            "version is launched, or one that names it in compatible_versions, or when they are forked with another "
            "application_version.",
            sum(left.values()),
            ", ".join([f"{version} ({runs})" for version, runs in left.items()][:_NAMED]) + others,
        )


__all__ = ["not_ended", "tell_left_behind", "version_gone"]
