"""How the settings of a queue are written on the command line."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.words import COUNT, duration

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


_SHORTEST = 0.001  # seconds, that a queue can be set to
_LONGEST = 9  # digits; more do not fit the column


def rate(word: str) -> tuple[int, float]:
    """Read ``100/1m``: so many in this time."""
    number, slash, period = word.partition("/")
    if not slash or not number.isdecimal() or len(number) > _LONGEST:
        raise click.BadParameter(f"{word!r} is no rate: write how many in which time, as in 100/1m.")
    if not int(number):
        raise click.BadParameter(f"{word!r} lets nothing begin: to stop a queue, pause it.")
    return int(number), seconds(period)


def seconds(word: str) -> float:
    """Read a duration as seconds; a millisecond at least."""
    length = duration(word).total_seconds()
    if length < _SHORTEST:
        raise click.BadParameter(f"{word!r} is too short: it is a millisecond, 0.001s, at least.")
    return length


# The option, its type, the settings it stands for, what it says, and what its opposite says.
_LIMITS: tuple[tuple[str, Any, tuple[str, ...], str, str], ...] = (
    ("concurrency", COUNT, ("concurrency",), "How many may run at once.", "However many."),
    ("worker-concurrency", COUNT, ("worker_concurrency",), "How many may run at once in a process.", "However many."),
    ("rate-limit", rate, ("rate_limit_max", "rate_limit_period_sec"), "How many in which time, as 100/1m.", "No rate."),
    ("partition-concurrency", COUNT, ("partition_concurrency",), "The same, of each partition.", "However many."),
    (
        "partition-rate-limit",
        rate,
        ("partition_rate_limit_max", "partition_rate_limit_period_sec"),
        "The same, of each partition.",
        "No rate.",
    ),
)
_OF_PARTITIONS = ("partition-concurrency", "partition-rate-limit")
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


def refuse_partition_limits(name: str, before: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Refuse limits of partitions on a queue that has, or would have, no partitions; they would limit nothing."""
    after = {**before, **settings}
    left = [f"--{option}" for option, _, columns, *_ in _LIMITS if option in _OF_PARTITIONS and after.get(columns[0])]
    if left and not after.get("partition_queue"):
        raise click.UsageError(
            f"{' and '.join(left)} would limit nothing, since the queue {name} would have no partitions: say "
            f"--partitions, or {' '.join(each.replace('--', '--no-') for each in left)}."
        )


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


__all__ = ["rate", "refuse_partition_limits", "seconds", "setting_options", "written_rate"]
