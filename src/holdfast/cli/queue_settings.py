"""How the settings of a queue are written on the command line."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.words import duration

if TYPE_CHECKING:
    from collections.abc import Callable


_LONGEST = 9  # digits; more do not fit the column


def rate(word: str) -> tuple[int, float]:
    """Read ``100/1m``: so many in this time."""
    number, slash, period = word.partition("/")
    if not slash or not number.isdecimal() or len(number) > _LONGEST:
        raise click.BadParameter(f"{word!r} is no rate: write how many in which time, as in 100/1m.")
    return int(number), duration(period).total_seconds()


def seconds(word: str) -> float:
    """Read a duration as seconds."""
    return duration(word).total_seconds()


_NUMBER = click.IntRange(1)

# The option, its type, the settings it stands for, what it says, and what its opposite says.
_LIMITS: tuple[tuple[str, Any, tuple[str, ...], str, str], ...] = (
    ("concurrency", _NUMBER, ("concurrency",), "How many may run at once.", "However many."),
    ("worker-concurrency", _NUMBER, ("worker_concurrency",), "How many may run at once in a process.", "However many."),
    ("rate-limit", rate, ("rate_limit_max", "rate_limit_period_sec"), "How many in which time, as 100/1m.", "No rate."),
    ("partition-concurrency", _NUMBER, ("partition_concurrency",), "The same, of each partition.", "However many."),
    (
        "partition-rate-limit",
        rate,
        ("partition_rate_limit_max", "partition_rate_limit_period_sec"),
        "The same, of each partition.",
        "No rate.",
    ),
)
_SWITCHES = (
    ("priority", "priority_enabled", "Runs with a smaller priority come first.", "The oldest come first."),
    ("partitions", "partition_queue", "Runs have a partition, and the partitions take turns.", "No partitions."),
)


def setting_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add an option for each setting, and one that takes it back; *function* gets those given as ``settings``."""

    @wraps(function)
    def command(*args: Any, polling_interval: float | None, **options: Any) -> None:
        settings: dict[str, Any] = {}
        for option, _, columns, *_ in _LIMITS:
            settings |= _limit(option, columns, options)
        for option, column, *_ in _SWITCHES:
            settings |= _switch(option, column, options)
        if polling_interval is not None:
            settings["polling_interval_sec"] = polling_interval
        function(*args, settings=settings, **options)

    told = "How long a process at rest waits before it looks again, as 5s."
    decorated = click.option("--polling-interval", type=seconds, help=told)(command)
    for option, _, says, opposite in reversed(_SWITCHES):
        decorated = click.option(f"--no-{option}", is_flag=True, help=opposite)(decorated)
        decorated = click.option(f"--{option}", is_flag=True, help=says)(decorated)
    for option, type_, _, says, opposite in reversed(_LIMITS):
        decorated = click.option(f"--no-{option}", is_flag=True, help=opposite)(decorated)
        decorated = click.option(f"--{option}", type=type_, help=says)(decorated)
    return decorated


def written_rate(most: int | None, period: float | None) -> str | None:
    """Return a rate as people read it."""
    return None if most is None or period is None else f"{most}/{period:g}s"


def _limit(option: str, columns: tuple[str, ...], options: dict[str, Any]) -> dict[str, Any]:
    value, none = _both(option, options)
    if none:
        return dict.fromkeys(columns)
    if value is None:
        return {}
    return dict(zip(columns, value if isinstance(value, tuple) else (value,), strict=True))


def _switch(option: str, column: str, options: dict[str, Any]) -> dict[str, Any]:
    on, off = _both(option, options)
    return {column: bool(on)} if on or off else {}


def _both(option: str, options: dict[str, Any]) -> tuple[Any, bool]:
    name = option.replace("-", "_")
    value, none = options.pop(name), options.pop(f"no_{name}")
    if value and none:
        raise click.UsageError(f"--{option} and --no-{option} exclude each other: give one of them.")
    return value, none


__all__ = ["rate", "seconds", "setting_options", "written_rate"]
