"""What may be set on a queue: checked at the door, before anything is written."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypedDict

from holdfast.core.durations import LONGEST
from holdfast.core.numbers import MOST_COUNTED
from holdfast.core.texts import check_text
from holdfast.errors import ConfigurationError, InvalidDuration
from holdfast.model.queue import RESERVED_PREFIX, Queue

if TYPE_CHECKING:
    from collections.abc import Mapping

_SHORTEST = 0.001  # seconds: what a column in milliseconds still holds
_COUNTS = ("concurrency", "worker_concurrency", "rate_limit_max", "partition_concurrency", "partition_rate_limit_max")
_SWITCHES = ("priority_enabled", "partition_queue", "paused")
_PAIRS = (
    ("rate_limit_max", "rate_limit_period_sec"),
    ("partition_rate_limit_max", "partition_rate_limit_period_sec"),
)
_OF_PARTITIONS = ("partition_concurrency", "partition_rate_limit_max", "partition_rate_limit_period_sec")
_IN_MEMORY = frozenset({"worker_concurrency", "polling_interval_sec"})


class QueueSettings(TypedDict, total=False):
    """What may be set on a queue; see ``Queue``."""

    concurrency: int | None
    worker_concurrency: int | None
    rate_limit_max: int | None
    rate_limit_period_sec: float | None
    priority_enabled: bool
    partition_queue: bool
    partition_concurrency: int | None
    partition_rate_limit_max: int | None
    partition_rate_limit_period_sec: float | None
    polling_interval_sec: float


SETTABLE = frozenset(QueueSettings.__annotations__)
DEFAULTS: Mapping[str, Any] = {each.name: each.default for each in fields(Queue) if each.name in SETTABLE}


def check_name(name: str) -> str:
    """Return the name of a queue; ConfigurationError if it cannot be one."""
    check_text("The name of a queue", name)
    if name.startswith(RESERVED_PREFIX):
        raise ConfigurationError(f"Names of queues that begin with {RESERVED_PREFIX} are ours: rename {name!r}.")
    return name


def check_settings(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return all settings of a queue, as they are stored; ConfigurationError names the one that does not fit."""
    unknown = sorted(settings.keys() - SETTABLE - {"paused"})
    if unknown:
        known = ", ".join(sorted(SETTABLE))
        raise ConfigurationError(f"The queue {name!r} has no setting {', '.join(unknown)}; there are {known}.")
    whole = {**DEFAULTS, **settings}
    for key in _COUNTS:
        _check_count(name, key, whole[key])
    for key in _SWITCHES:
        if not isinstance(whole.get(key, False), bool):
            raise ConfigurationError(f"{key} of the queue {name!r} is True or False, not {whole[key]!r}.")
    for most, period in _PAIRS:
        _check_rate(name, most, period, whole)
    _check_seconds(name, "polling_interval_sec", whole["polling_interval_sec"])
    if not whole["partition_queue"]:
        _refuse_partition_limits(name, whole)
    return whole


def check_in_memory(name: str, settings: Mapping[str, Any]) -> None:
    """Refuse what a queue that only this process knows cannot promise."""
    others = sorted(key for key, value in settings.items() if key not in _IN_MEMORY and value != DEFAULTS.get(key))
    if others:
        raise ConfigurationError(
            f"The queue {name!r} is kept in memory, so no other process knows its {', '.join(others)}: such a queue "
            f"has only {' and '.join(sorted(_IN_MEMORY))}. Register it without in_memory=True."
        )


def _check_count(name: str, key: str, value: Any) -> None:
    if value is None:
        return
    if type(value) is not int or not 1 <= value <= MOST_COUNTED:
        remedy = "; to stop a queue, pause it" if type(value) is int and value == 0 else ""
        raise ConfigurationError(f"{key} of the queue {name!r} is a whole number from 1 on, not {value!r}{remedy}.")


def _check_seconds(name: str, key: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not _SHORTEST <= value <= LONGEST:
        raise InvalidDuration(
            f"{key} of the queue {name!r} is a number of seconds from {_SHORTEST} to a hundred years, not {value!r}."
        )


def _check_rate(name: str, most: str, period: str, whole: Mapping[str, Any]) -> None:
    if (whole[most] is None) != (whole[period] is None):
        raise ConfigurationError(f"A rate needs both {most} and {period}; the queue {name!r} has only one of them.")
    if whole[period] is not None:
        _check_seconds(name, period, whole[period])


def _refuse_partition_limits(name: str, whole: Mapping[str, Any]) -> None:
    given = [key for key in _OF_PARTITIONS if whole[key] is not None]
    if given:
        raise ConfigurationError(
            f"The queue {name!r} has no partitions, so {', '.join(given)} limit nothing: set partition_queue=True."
        )


__all__ = [
    "DEFAULTS",
    "SETTABLE",
    "QueueSettings",
    "check_in_memory",
    "check_name",
    "check_settings",
]
