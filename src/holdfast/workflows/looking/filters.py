"""Which runs are meant: every column of a run as a filter, checked at the door."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from math import isfinite
from typing import Any

import msgspec

from holdfast.core.moments import milliseconds_of
from holdfast.core.texts import is_kept
from holdfast.errors import ConfigurationError
from holdfast.model.workflow import WorkflowStatus

OneOrMore = str | Sequence[str]
When = datetime | int
Scalar = str | int | float | bool | None

_encode = msgspec.json.encode

_TEXTS = (
    "workflow_ids", "status", "name", "class_name", "config_name", "application_version", "application_id",
    "executor_id", "authenticated_user", "assumed_role", "queue_name", "queue_partition_key", "deduplication_id",
    "parent_workflow_id", "forked_from",
)  # fmt: skip
_NUMBERS = ("priority",)
_TIMES = (
    "created_after", "created_before", "started_after", "started_before", "completed_after", "completed_before",
    "updated_after", "updated_before",
)  # fmt: skip
_SWITCHES = ("was_forked_from", "is_fork", "has_parent", "has_deadline")


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Which runs are meant: those that fit everything that is given; all of them if nothing is.

    A text or a number may be one value or a sequence of them, any of which fits; none of an empty sequence does.
    *..._after* is at that time or later, *..._before* is earlier than it: an aware ``datetime``, or milliseconds since
    the epoch. *attributes* are names and values at the top of a run's attributes. *search* is a text in the stored
    arguments, result or error of a run; what is encrypted or compressed is not searched. *queues_only* are the runs of
    queues that have not ended. Text is compared letter by letter, upper and lower case being different.

    Raises ``ConfigurationError``, which names the filter, for a value that can fit nothing.
    """

    workflow_ids: OneOrMore | None = None
    workflow_id_prefix: str | None = None
    status: OneOrMore | None = None
    name: OneOrMore | None = None
    class_name: OneOrMore | None = None
    config_name: OneOrMore | None = None
    application_version: OneOrMore | None = None
    application_id: OneOrMore | None = None
    executor_id: OneOrMore | None = None
    authenticated_user: OneOrMore | None = None
    assumed_role: OneOrMore | None = None
    queue_name: OneOrMore | None = None
    queue_partition_key: OneOrMore | None = None
    deduplication_id: OneOrMore | None = None
    priority: int | Sequence[int] | None = None
    parent_workflow_id: OneOrMore | None = None
    forked_from: OneOrMore | None = None
    was_forked_from: bool | None = None
    is_fork: bool | None = None
    has_parent: bool | None = None
    has_deadline: bool | None = None
    queues_only: bool = False
    min_recovery_attempts: int | None = None
    created_after: When | None = None
    created_before: When | None = None
    started_after: When | None = None
    started_before: When | None = None
    completed_after: When | None = None
    completed_before: When | None = None
    updated_after: When | None = None
    updated_before: When | None = None
    attributes: Mapping[str, Scalar] | None = None
    search: str | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if value is not None:
                _check(each.name, value)


def listed(value: Any) -> tuple[Any, ...]:
    """Return a filter's values: itself, if it is one."""
    return (value,) if isinstance(value, str | int) else tuple(value)


def milliseconds(when: When) -> int:
    """Return a time as milliseconds since the epoch."""
    return when if isinstance(when, int) else milliseconds_of(when)


def _check(name: str, value: Any) -> None:
    if name in _TEXTS:
        _check_each(name, value, str)
    elif name in _NUMBERS:
        _check_each(name, value, int)
    elif name in _TIMES:
        _check_time(name, value)
    elif name in _SWITCHES or name == "queues_only":
        _demand(isinstance(value, bool), name, "is True or False", value)
    elif name == "min_recovery_attempts":
        _demand(_is_number(value) and value >= 0, name, "is a number from 0 on", value)
    elif name == "attributes":
        _check_attributes(value)
    else:
        _demand(_is_text(value) and value != "", name, "is a text of at least one letter", value)


def _check_each(name: str, value: Any, kind: type) -> None:
    one = "text" if kind is str else "number"
    fits = _is_text if kind is str else _is_number
    many = isinstance(value, Sequence | set | frozenset) and not isinstance(value, str | bytes)
    _demand(all(map(fits, value)) if many else fits(value), name, f"is a {one}, or a sequence of them", value)
    if name == "status":
        unknown = [each for each in listed(value) if each not in set(WorkflowStatus)]
        _demand(not unknown, name, f"is one of {', '.join(WorkflowStatus)}", value)


def _check_time(name: str, value: Any) -> None:
    aware = isinstance(value, datetime) and value.utcoffset() is not None
    _demand(aware or _is_number(value), name, "is a datetime with a time zone, or milliseconds since the epoch", value)


def _check_attributes(value: Any) -> None:
    told = "is a mapping of attribute names to texts, numbers, True, False or None"
    _demand(isinstance(value, Mapping), "attributes", told, value)
    for key, each in value.items():
        number = isfinite(each) if isinstance(each, float) else _is_number(each)  # JSON has null for the others
        plain = each is None or isinstance(each, bool) or number or _is_text(each)
        _demand(_is_text(key) and plain, "attributes", told, value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and is_kept(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


def _demand(fits: object, name: str, told: str, value: object) -> None:
    if not fits:
        raise ConfigurationError(f"The filter {name} {told}, not {value!r:.100}.")


__all__ = ["Filters", "OneOrMore", "Scalar", "When"]
