"""How a breaker behaves: its options, as a user gives them and as it goes by them."""

from __future__ import annotations

from collections.abc import Callable  # noqa: TC003 -- whoever reads the hints of the options needs it
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from math import inf
from typing import Any, TypeAlias, TypedDict, Unpack, cast

from holdfast.core.breaker_rules import TripRules
from holdfast.core.durations import checked_seconds
from holdfast.core.numbers import count
from holdfast.errors import CircuitOpen, ConfigurationError
from holdfast.model.breaker import OpenTime
from holdfast.model.workflow import Duration  # noqa: TC001 -- as Callable

_SHORTEST = 0.001  # seconds

Errors: TypeAlias = "type[BaseException] | tuple[type[BaseException], ...] | Callable[[BaseException], bool]"


class BreakerMode(StrEnum):
    """What a breaker does in this process: refuse calls, only watch and tell, or nothing at all."""

    ENFORCE = "enforce"
    OBSERVE = "observe"
    DISABLED = "disabled"


class BreakerOptions(TypedDict, total=False):
    """What may be said about a breaker; see the reference for what each means and for its default."""

    failures: int | None
    failure_rate: float | None
    slow_call_rate: float | None
    slow_call_duration: Duration | None
    window: int
    window_duration: Duration | None
    minimum_calls: int
    open_for: Duration
    open_backoff: float
    open_cap: Duration
    open_jitter: float
    probes: int
    successes: int
    probe_timeout: Duration
    counts: Errors
    ignores: Errors
    failed_result: Callable[[Any], bool] | None
    quorum: int
    quorum_within: Duration
    mode: BreakerMode | str
    storage_timeout: Duration


@dataclass(frozen=True, slots=True)
class BreakerPolicy:
    """The options of a breaker, checked."""

    rules: TripRules
    open_time: OpenTime
    probes: int
    successes: int
    probe_timeout: float
    quorum: int
    quorum_within: timedelta
    storage_timeout: float
    mode: BreakerMode
    failed_result: Callable[[Any], bool] | None
    _counts: Errors = field(repr=False)
    _ignores: Errors = field(repr=False)

    def counts(self, error: BaseException) -> bool:
        """Whether *error* speaks against the dependency; what is refused by a breaker further in does not."""
        if isinstance(error, CircuitOpen) or _fits(self._ignores, error):
            return False
        return _fits(self._counts, error)


def _fits(errors: Errors, error: BaseException) -> bool:
    return isinstance(error, errors) if isinstance(errors, (type, tuple)) else errors(error)


def policy_of(**options: Unpack[BreakerOptions]) -> BreakerPolicy:
    """Return the policy that *options* describe; ``ConfigurationError`` for what makes no sense."""
    unknown = options.keys() - BreakerOptions.__annotations__.keys()
    if unknown:
        known = ", ".join(BreakerOptions.__annotations__)
        raise ConfigurationError(f"A breaker has no option {', '.join(sorted(unknown))}: there are {known}.")
    try:
        return BreakerPolicy(
            rules=_rules(options),
            open_time=_open_time(options),
            probes=count(options.get("probes", 3), "probes", least=1),
            successes=count(options.get("successes", 2), "successes", least=1),
            probe_timeout=checked_seconds(options.get("probe_timeout", 60), "probe_timeout", least=_SHORTEST),
            quorum=count(options.get("quorum", 1), "quorum", least=1),
            quorum_within=_duration("quorum_within", options.get("quorum_within", 60), least=_SHORTEST),
            storage_timeout=checked_seconds(options.get("storage_timeout", 2), "storage_timeout", least=_SHORTEST),
            mode=_mode(options.get("mode", BreakerMode.ENFORCE)),
            failed_result=_function("failed_result", options.get("failed_result")),
            _counts=_errors("counts", options.get("counts", Exception)),
            _ignores=_errors("ignores", options.get("ignores", ())),
        )
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"A breaker cannot be set up so: {error}") from None


def _rules(options: BreakerOptions) -> TripRules:
    slow, window = options.get("slow_call_duration"), options.get("window_duration")
    return TripRules(
        failures=options.get("failures", 5),
        failure_rate=options.get("failure_rate", 0.5),
        slow_call_rate=options.get("slow_call_rate"),
        slow_call_seconds=None if slow is None else checked_seconds(slow, "slow_call_duration"),
        window=options.get("window", 100),
        window_seconds=None if window is None else checked_seconds(window, "window_duration", least=_SHORTEST),
        minimum_calls=options.get("minimum_calls", 10),
    )


def _open_time(options: BreakerOptions) -> OpenTime:
    jitter, backoff = options.get("open_jitter", 0.1), options.get("open_backoff", 1.0)
    for name, value, least, most in (("open_jitter", jitter, 0, 1), ("open_backoff", backoff, 1, inf)):
        if type(value) not in {int, float} or not least <= value <= most:
            raise ValueError(f"{name} is a number from {least} to {most}, not {value!r:.50}.")
    base, cap = _duration("open_for", options.get("open_for", 60)), _duration("open_cap", options.get("open_cap", 3600))
    if cap < base:
        raise ValueError("open_for is a duration, and open_cap at least as long.")
    return OpenTime(base=base, backoff=backoff, cap=cap, jitter=jitter)


def _duration(name: str, value: Duration, *, least: float = 0.0) -> timedelta:
    return timedelta(seconds=checked_seconds(value, name, least=least))


def _errors(name: str, errors: Any) -> Errors:
    kinds = errors if isinstance(errors, tuple) else (errors,)
    is_function = callable(errors) and not isinstance(errors, type)
    if is_function or all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds):
        return cast("Errors", errors)
    raise ValueError(f"{name} is a class of errors, a tuple of such, or a function of an error, not {errors!r}.")


def _mode(mode: BreakerMode | str) -> BreakerMode:
    if mode in set(BreakerMode):
        return BreakerMode(mode)
    raise ValueError(f"mode is {', '.join(BreakerMode)}, not {mode!r:.50}.")


def _function(name: str, function: Callable[[Any], bool] | None) -> Callable[[Any], bool] | None:
    if function is None or callable(function):
        return function
    raise ValueError(f"{name} is a function of a result, not {function!r}.")


__all__ = ["BreakerMode", "BreakerOptions", "BreakerPolicy", "Errors", "policy_of"]
