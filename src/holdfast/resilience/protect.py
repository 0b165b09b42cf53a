"""``protect``: everything that may stand between a program and a call that fails, in one order.

::

    fallback                the value in place of an error
      └─ idempotency key    one call for each key; an error releases the key
           └─ dead letter   what failed for good is kept with its arguments
                └─ retry    attempt after attempt
                     └─ breaker    counts each attempt, refuses them while it is open
                          └─ timeout    of one attempt; to the breaker it is a failure
                               └─ the function

A fallback is never stored under an idempotency key, a dead letter is made once and not for each attempt, an open
breaker is not tried again, and a call that hangs counts against the breaker.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.core.durations import checked_seconds
from holdfast.core.functions import makes_coroutine
from holdfast.errors import ConfigurationError
from holdfast.resilience import layers
from holdfast.resilience.colour import is_awaited

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.model.workflow import Duration, Retry
    from holdfast.model.world import World
    from holdfast.resilience.breaker import CircuitBreaker
    from holdfast.resilience.interrupting import Watch
    from holdfast.resilience.layers import Ask, Call, Park
    from holdfast.resilience.once import Keys

NO_FALLBACK: Any = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Protection:
    """The layers of one protected function; what is None is left out."""

    name: str
    world: World
    retry: Retry | None = None
    timeout: Duration | None = None
    watch: Watch | None = None
    breaker: CircuitBreaker | None = None
    fallback: Any = NO_FALLBACK
    park: Park | None = None
    keys: Keys | None = None
    asking: Callable[..., Ask] | None = None
    replays: Callable[..., None] | None = None

    def around(self, function: Call) -> Call:
        """Return *function* with all its layers."""
        is_async = is_awaited(function, f"protect({self.name!r})")
        call = self.attempts(function, is_async=is_async)
        if self.replays is not None:
            self.replays(call, is_async=is_async)
        return functools.wraps(function)(self.around_attempts(call, is_async=is_async))

    def attempts(self, call: Call, *, is_async: bool) -> Call:
        """Return *call* with the inner layers: it tries, and gives up, by itself."""
        if self.timeout is not None and self.watch is not None:
            if is_async:
                raise ConfigurationError(f"interrupt of {self.name!r} is for sync functions: async ones are cancelled.")
            call = layers.interrupted(call, self.name, self._limit(self.timeout), self.watch)
        elif self.timeout is not None:
            call = layers.timed(call, self.name, self._limit(self.timeout), is_async=is_async)
        if self.breaker is not None:
            call = self.breaker(call)
        if self.retry is not None:
            call = layers.retried(call, self.retry, self.world, is_async=is_async)
        return call

    def _limit(self, timeout: Duration) -> float:
        return checked_seconds(timeout, f"The timeout of {self.name!r}", least=0.001)

    def around_attempts(self, call: Call, *, is_async: bool) -> Call:
        """Return *call*, which tries and gives up by itself, with the outer layers."""
        if self.park is not None and self.asking is not None:
            call = layers.parked(call, self.park, self.asking(is_async=is_async), is_async=is_async)
        if self.keys is not None:
            from holdfast.resilience.once import once, once_blocking  # noqa: PLC0415 -- what is not used is not loaded

            call = once(call, self.keys, self.world) if is_async else once_blocking(call, self.keys)
        if self.fallback is not NO_FALLBACK:
            if not is_async and callable(self.fallback) and makes_coroutine(self.fallback):
                raise ConfigurationError(
                    f"The fallback of {self.name!r} is async, and the function is not: nobody would await it."
                )
            call = layers.fallen_back(call, self.fallback, is_async=is_async)
        return call


__all__ = ["NO_FALLBACK", "Protection"]
