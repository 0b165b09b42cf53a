"""The state of circuit breakers, shared by a fleet: in memory, in a database, or in Redis."""

from holdfast.model.breaker import (
    CircuitBreakerChange,
    CircuitBreakerCloseAttempt,
    CircuitBreakerOpenAttempt,
    CircuitBreakerStateData,
    CircuitState,
    OpenTime,
)

__all__ = [
    "CircuitBreakerChange",
    "CircuitBreakerCloseAttempt",
    "CircuitBreakerOpenAttempt",
    "CircuitBreakerStateData",
    "CircuitState",
    "OpenTime",
]
