"""What may be said about a schedule: checked at the door, before anything is written."""

from __future__ import annotations

import inspect
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, get_args

from holdfast.core.cron import cron
from holdfast.core.durations import checked_seconds
from holdfast.core.texts import as_text, check_text, demand_text
from holdfast.errors import ConfigurationError, InvalidSchedule
from holdfast.model.queue import RESERVED_PREFIX
from holdfast.model.schedule import Overlap
from holdfast.workflows.declaring.names import check_name
from holdfast.workflows.running.starts import class_name

if TYPE_CHECKING:
    from holdfast.model.workflow import Duration
    from holdfast.workflows.declaring.functions import AsyncWorkflow, Workflow
    from holdfast.workflows.declaring.registry import Definition

BOTH = 2  # scheduled_at and context

_LONGEST_NAME = 200  # the id of a run has room for it, and for the slot
_LONGEST_EXPRESSION = 255
_LONGEST_JITTER = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class ScheduleSpec:
    """A schedule as ``apply_schedules`` takes it; the fields are the arguments of ``create_schedule``."""

    name: str
    workflow: Workflow[..., Any, Any] | AsyncWorkflow[..., Any, Any] | str
    schedule: str
    _: KW_ONLY
    context: Any = None
    cron_timezone: str | None = None
    queue_name: str | None = None
    automatic_backfill: bool = False
    jitter: Duration = 0
    overlap: Overlap = "allow"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A schedule that was checked, in plain values. *passes* is None where the function is known by name only."""

    schedule_name: str
    workflow_name: str
    workflow_class_name: str | None
    schedule: str
    context: Any
    cron_timezone: str | None
    queue_name: str | None
    automatic_backfill: bool
    jitter_ms: int
    overlap: str
    passes: int | None


def wanted(spec: ScheduleSpec) -> Wanted:
    """Return *spec* as plain values.

    Raises ``InvalidSchedule`` for a wrong expression or zone, ``ConfigurationError`` for the rest; the message names
    what does not fit.
    """
    if not isinstance(spec, ScheduleSpec):
        raise ConfigurationError(
            f"A schedule is a ScheduleSpec, as in ScheduleSpec('nightly', report, '0 3 * * *'), not {spec!r:.100}."
        )
    _check_name(spec.name)
    _check_expression(spec)
    if spec.overlap not in get_args(Overlap):
        raise ConfigurationError(
            f"overlap of the schedule {spec.name!r} is one of {', '.join(get_args(Overlap))}, not {spec.overlap!r}."
        )
    if not isinstance(spec.automatic_backfill, bool):
        raise ConfigurationError(f"automatic_backfill of the schedule {spec.name!r} is True or False.")
    if spec.queue_name is not None and check_text("queue_name", spec.queue_name).startswith(RESERVED_PREFIX):
        raise ConfigurationError(
            f"The queue {spec.queue_name!r} is ours: leave queue_name away, and the runs of {spec.name!r} go there."
        )
    name, class_, passes = _workflow(spec)
    return Wanted(
        schedule_name=as_text(spec.name),
        workflow_name=name,
        workflow_class_name=class_,
        schedule=spec.schedule,
        context=spec.context,
        cron_timezone=spec.cron_timezone,
        queue_name=spec.queue_name,
        automatic_backfill=spec.automatic_backfill,
        jitter_ms=_jitter_ms(spec),
        overlap=spec.overlap,
        passes=passes,
    )


def passes_of(schedule_name: str, definition: Definition) -> int:
    """Return how many of ``(scheduled_at, context)`` a workflow takes; ConfigurationError if it needs other things."""
    if definition.binds == "instance":
        raise ConfigurationError(
            f"The workflow {definition.name!r} of the schedule {schedule_name!r} is a method of an object, and a "
            "schedule has no place for which one: schedule a function or a class method that finds the object."
        )
    signature = inspect.signature(definition.function)
    bound = 1 if definition.binds == "class" else 0
    for count in range(BOTH, -1, -1):
        try:
            signature.bind(*range(bound + count))
        except TypeError:
            continue
        return count
    raise ConfigurationError(
        f"The workflow {definition.name!r} cannot be called by the schedule {schedule_name!r}: it is given "
        f"(scheduled_at, context), or the first, or nothing, and takes {signature}."
    )


def _workflow(spec: ScheduleSpec) -> tuple[str, str | None, int | None]:
    """Return the name of the workflow, its class, and what it takes if that is known."""
    if isinstance(spec.workflow, str):
        return check_name(spec.workflow), None, None
    definition: Definition | None = getattr(spec.workflow, "definition", None)
    if definition is None or not hasattr(definition, "max_recovery_attempts"):
        raise ConfigurationError(
            f"The schedule {spec.name!r} is for a workflow, or the name of one, not for {spec.workflow!r}: put "
            "@app.workflow above the function."
        )
    instance = getattr(spec.workflow, "_instance", None)
    owner = definition.class_name if instance is None else class_name(definition, instance)
    return definition.name, owner, passes_of(spec.name, definition)


def _check_name(name: str) -> None:
    demand_text("The name of a schedule", name)
    if not 0 < len(name) <= _LONGEST_NAME or not name.isprintable():
        raise ConfigurationError(f"The name of a schedule has 1 to {_LONGEST_NAME} printable characters: {name!r}.")


def _check_expression(spec: ScheduleSpec) -> None:
    demand_text(f"The cron expression of the schedule {spec.name!r}", spec.schedule)
    if spec.cron_timezone is not None:
        demand_text(f"cron_timezone of the schedule {spec.name!r}", spec.cron_timezone)
        if not spec.cron_timezone:
            raise InvalidSchedule(
                f"cron_timezone of the schedule {spec.name!r} is empty: write an IANA name such as Europe/Berlin, or "
                "leave it away for UTC."
            )
    if len(spec.schedule) > _LONGEST_EXPRESSION:
        raise ConfigurationError(
            f"The cron expression of the schedule {spec.name!r} is a text of at most {_LONGEST_EXPRESSION} characters."
        )
    cron(spec.schedule, spec.cron_timezone)


def _jitter_ms(spec: ScheduleSpec) -> int:
    jitter = checked_seconds(spec.jitter, f"jitter of the schedule {spec.name!r}")
    if jitter > _LONGEST_JITTER:
        raise ConfigurationError(
            f"jitter of the schedule {spec.name!r} is a duration from 0 to a day, not {spec.jitter!r}."
        )
    return int(jitter * 1000)


__all__ = ["BOTH", "ScheduleSpec", "Wanted", "passes_of", "wanted"]
