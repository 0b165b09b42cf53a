"""Calls that may fail, and what keeps a program alive through it: circuit breakers, and ``protect``."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.resilience.breaker import CircuitBreaker
    from holdfast.resilience.events import BreakerEvent, BreakerMetrics
    from holdfast.resilience.keyed import KeyedBreakers
    from holdfast.resilience.policy import BreakerMode, BreakerOptions
    from holdfast.resilience.replay_report import ReplayOutcome, ReplayReport, ReplayResult

__all__ = [
    "BreakerEvent",
    "BreakerMetrics",
    "BreakerMode",
    "BreakerOptions",
    "CircuitBreaker",
    "KeyedBreakers",
    "ReplayOutcome",
    "ReplayReport",
    "ReplayResult",
]

# Where each public name is defined; the type checker reads the imports above instead.
_HOMES = {
    "BreakerEvent": "events",
    "BreakerMetrics": "events",
    "BreakerMode": "policy",
    "BreakerOptions": "policy",
    "CircuitBreaker": "breaker",
    "KeyedBreakers": "keyed",
    "ReplayOutcome": "replay_report",
    "ReplayReport": "replay_report",
    "ReplayResult": "replay_report",
}


def __getattr__(name: str) -> Any:
    """Load a part when somebody asks for it."""
    if name in _HOMES:
        return getattr(import_module(f"holdfast.resilience.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
