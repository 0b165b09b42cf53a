"""Rows of schedules as what a user sees, and the runs that their slots become."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from holdfast.core.moments import milliseconds_of, moment_of
from holdfast.core.slots import run_id_of, shift
from holdfast.model.schedule import Schedule, ScheduleStatus
from holdfast.model.workflow import INTERNAL_QUEUE, StartOptions
from holdfast.workflows.enqueueing.rows import Entry, Work, entry

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.db.session import Row
    from holdfast.workflows.payloads import Payloads

ATTRIBUTE = "schedule_name"  # under which the runs of a schedule are found


class Rows:
    """Reads and makes rows with the serialization of one application or client."""

    def __init__(self, payloads: Payloads, new_id: Callable[[], str]) -> None:
        self._payloads = payloads
        self._new_id = new_id

    def schedule(self, row: Row) -> Schedule:
        """Return a row of ``workflow_schedules``; a context that cannot be opened here is shown as such."""
        fired, due = row["last_fired_at"], row["next_due_epoch_ms"]
        return Schedule(
            schedule_id=row["schedule_id"],
            schedule_name=row["schedule_name"],
            workflow_name=row["workflow_name"],
            workflow_class_name=row["workflow_class_name"],
            schedule=row["schedule"],
            status=ScheduleStatus(row["status"]),
            context=self._payloads.shown(row["context"], row["context_serialization"]),
            last_fired_at=None if fired is None else datetime.fromisoformat(fired).astimezone(UTC),
            automatic_backfill=bool(row["automatic_backfill"]),
            cron_timezone=row["cron_timezone"],
            queue_name=row["queue_name"],
            jitter=row["jitter_ms"] / 1000,
            overlap=row["overlap"],
            passes=row["passes"],
            next_due_at=moment_of(due) if due and row["status"] == ScheduleStatus.ACTIVE else None,
            last_run_id=row["last_run_id"],
            version=row["version"],
            created_at=row["created_at"],
            updated_at=row["updated_at"],
        )

    def context(self, row: Row) -> Any:
        """Return the context that the workflow is given; ``SerializationError`` if it cannot be opened here."""
        return self._payloads.plain.load(row["context"], row["context_serialization"])

    def dump(self, context: Any) -> tuple[str, str]:
        """Return text and marker of a context."""
        return self._payloads.dump(context)

    def slot(self, row: Row, slot: datetime, version: str | None, *, now_ms: int | None = None) -> Entry:
        """Return the run of a slot; with *now_ms* it is put off by the schedule's jitter, as far as that is to come."""
        until = milliseconds_of(slot) + shift(row["schedule_id"], slot, row["jitter_ms"])
        delayed = now_ms is not None and until > now_ms
        return self.run(
            row,
            slot,
            version,
            run_id_of(row["schedule_name"], slot),
            delay_until=moment_of(until) if delayed else None,
        )

    def run(
        self, row: Row, moment: datetime, version: str | None, run_id: str, *, delay_until: datetime | None = None
    ) -> Entry:
        """Return a run of a schedule's workflow for a version of the application; one that is there stands."""
        arguments = (moment, self.context(row))[: row["passes"]]
        options = StartOptions(
            workflow_id=run_id,
            queue_name=row["queue_name"] or INTERNAL_QUEUE,
            application_version=version,
            attributes={ATTRIBUTE: row["schedule_name"]},
            delay_until=delay_until,
            on_conflict="return_existing",
        )
        work = Work(
            row["workflow_name"], row["workflow_class_name"], None, arguments, {}, options, self._payloads.plain
        )
        return entry(self._payloads, self._new_id, work)


__all__ = ["Rows"]
