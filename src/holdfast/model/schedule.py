"""A schedule as it is stored: which workflow fires when, and how."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime  # noqa: TC003 -- records are read back by their annotations
from enum import StrEnum
from typing import Any, Literal

Overlap = Literal["allow", "skip", "queue", "cancel_other"]


class ScheduleStatus(StrEnum):
    """Whether a schedule fires."""

    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A schedule, with the documented names. *created_at* and *updated_at* are milliseconds, *jitter* is seconds.

    *last_fired_at* is the last slot that has fired, *next_due_at* the one that comes next: None while the schedule is
    paused. *passes* says how many of ``(scheduled_at, context)`` the workflow is given. *version* counts the changes.
    """

    schedule_id: str
    schedule_name: str
    workflow_name: str
    schedule: str
    workflow_class_name: str | None = None
    status: ScheduleStatus = ScheduleStatus.ACTIVE
    context: Any = None
    last_fired_at: datetime | None = None
    automatic_backfill: bool = False
    cron_timezone: str | None = None
    queue_name: str | None = None
    jitter: float = 0.0
    overlap: Overlap = "allow"
    passes: int = 2
    next_due_at: datetime | None = None
    last_run_id: str | None = None
    version: int = 0
    created_at: int = 0
    updated_at: int = 0


__all__ = ["Overlap", "Schedule", "ScheduleStatus"]
