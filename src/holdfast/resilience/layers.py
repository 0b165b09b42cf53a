"""What ``protect`` puts around a function, one layer at a time, for sync and async functions alike.

Each layer is a function that takes a call and returns a call with the same arguments.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from typing import TYPE_CHECKING, Any, TypeAlias

from holdfast.core.retry import wait_before_retry
from holdfast.errors import CallTimeout, CircuitOpen
from holdfast.resilience.interrupting import Late
from holdfast.resilience.spare_threads import SpareThreads
from holdfast.resilience.time_limit import TimeLimit

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from holdfast.model.workflow import Retry
    from holdfast.model.world import World
    from holdfast.resilience.interrupting import Watch

Call: TypeAlias = "Callable[..., Any]"
Park: TypeAlias = "Callable[[Call, Exception, tuple[Any, ...], dict[str, Any]], Coroutine[Any, Any, Any]]"
Ask: TypeAlias = "Callable[[Coroutine[Any, Any, Any]], Any]"

logger = logging.getLogger("holdfast.protect")


def interrupted(call: Call, name: str, limit: float, watch: Watch) -> Call:
    """Give a sync *call* so much time on its caller's own thread, where it is interrupted when that is over."""

    @functools.wraps(call)
    def within(*args: Any, **kwargs: Any) -> Any:
        try:
            return watch.run(call, limit, args, kwargs)
        except Late as error:
            raise CallTimeout(
                f"A call of {name!r} took longer than its timeout of {limit:g} s, and was interrupted."
            ) from error

    return within


def timed(call: Call, name: str, limit: float, *, is_async: bool) -> Call:
    """Give *call* so much time. A sync one runs on a thread, which is left behind when its time is up."""
    if is_async:
        in_time = TimeLimit(limit)

        @functools.wraps(call)
        async def within(*args: Any, **kwargs: Any) -> Any:
            try:
                with in_time():
                    return await call(*args, **kwargs)
            except Late as error:
                raise CallTimeout(f"A call of {name!r} took longer than its timeout of {limit:g} s.") from error

        return within

    threads = SpareThreads(f"holdfast-call-{name}")

    @functools.wraps(call)
    def within_thread(*args: Any, **kwargs: Any) -> Any:
        try:
            return threads.run(call, limit, args, kwargs)
        except Late as error:
            raise CallTimeout(
                f"A call of {name!r} took longer than its timeout of {limit:g} s; its thread was left behind."
            ) from error

    return within_thread


def pause(policy: Retry, attempt: int, error: Exception, draw: float) -> float | None:
    """Return how long to wait before another attempt, or None; what a breaker refused is final unless asked for."""
    if isinstance(error, CircuitOpen) and policy.when is None:
        return None
    return wait_before_retry(policy, attempt, error, draw)


def retried(call: Call, policy: Retry, world: World, *, is_async: bool) -> Call:
    """Try *call* again as *policy* says."""
    if is_async:

        @functools.wraps(call)
        async def again(*args: Any, **kwargs: Any) -> Any:
            attempt = 0
            while True:
                attempt += 1
                try:
                    return await call(*args, **kwargs)
                except Exception as error:
                    wait = pause(policy, attempt, error, world.random.random())
                    if wait is None:
                        raise
                await world.sleep(wait)

        return again

    @functools.wraps(call)
    def again_blocking(*args: Any, **kwargs: Any) -> Any:
        attempt = 0
        while True:
            attempt += 1
            try:
                return call(*args, **kwargs)
            except Exception as error:
                wait = pause(policy, attempt, error, world.random.random())
                if wait is None:
                    raise
            time.sleep(wait)

    return again_blocking


def parked(call: Call, park: Park, ask: Ask, *, is_async: bool) -> Call:
    """Keep what failed for good, with its arguments; the error is raised all the same."""
    if is_async:

        @functools.wraps(call)
        async def kept(*args: Any, **kwargs: Any) -> Any:
            try:
                return await call(*args, **kwargs)
            except Exception as error:
                try:
                    await ask(park(call, error, args, kwargs))
                except Exception as second:  # noqa: BLE001 -- the step boundary: the first error is the one that counts
                    _not_parked(error, second)
                raise

        return kept

    @functools.wraps(call)
    def kept_blocking(*args: Any, **kwargs: Any) -> Any:
        try:
            return call(*args, **kwargs)
        except Exception as error:
            try:
                ask(park(call, error, args, kwargs))
            except Exception as second:  # noqa: BLE001 -- as above
                _not_parked(error, second)
            raise

    return kept_blocking


def _not_parked(error: Exception, second: Exception) -> None:
    logger.error("A failed call could not be kept as a dead letter: %s", second)
    error.add_note(f"It could not be kept as a dead letter: {second}")


def fallen_back(call: Call, fallback: Any, *, is_async: bool) -> Call:
    """Return *fallback*, or what it returns for the same arguments, in place of an error."""
    if is_async:

        @functools.wraps(call)
        async def rescued(*args: Any, **kwargs: Any) -> Any:
            try:
                return await call(*args, **kwargs)
            except Exception as error:  # noqa: BLE001 -- what a fallback is for
                logger.debug("A call failed, and its fallback is used: %r", error)
            made = fallback(*args, **kwargs) if callable(fallback) else fallback
            return await made if asyncio.iscoroutine(made) else made

        return rescued

    @functools.wraps(call)
    def rescued_blocking(*args: Any, **kwargs: Any) -> Any:
        try:
            return call(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 -- what a fallback is for
            logger.debug("A call failed, and its fallback is used: %r", error)
        return fallback(*args, **kwargs) if callable(fallback) else fallback

    return rescued_blocking


__all__ = ["Ask", "Call", "Park", "fallen_back", "interrupted", "parked", "pause", "retried", "timed"]
