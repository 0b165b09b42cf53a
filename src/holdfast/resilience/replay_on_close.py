"""Replays the dead letters of a protected function when its breaker closes."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError
from holdfast.resilience.replay import Manner, Replayer, Selection
from holdfast.resilience.replay_arguments import Arguments

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from holdfast.model.dead_letter import FailedOperationData
    from holdfast.model.world import World
    from holdfast.resilience.breaker import CircuitBreaker
    from holdfast.resilience.events import BreakerEvent
    from holdfast.resilience.handlers import Handle
    from holdfast.resilience.layers import Call
    from holdfast.stores.dead_letters.repository import AsyncFailedOperationRepository

logger = logging.getLogger("holdfast.protect")


class ReplaysOnClose:
    """Replays the dead letters of one protected function, *call* with its retries, when its breaker has closed.

    *opened* opens a letter that was sealed. *on_thread* makes the call unless it *is_async*. ``ConfigurationError`` if
    its arguments could not be read back. Every process of the fleet hears of it; each letter is taken by one of them.
    If the breaker opens again the rest stays pending, untried.
    """

    def __init__(
        self,
        name: str,
        domain: str,
        breaker: CircuitBreaker,
        call: Call,
        letters: Callable[[], AsyncFailedOperationRepository],
        start: Callable[[Coroutine[Any, Any, None]], None],
        world: World,
        *,
        opened: Callable[[FailedOperationData], FailedOperationData],
        on_thread: Callable[..., Awaitable[Any]],
        is_async: bool,
    ) -> None:
        self._name = name
        self._domain = domain
        self._breaker = breaker
        self._call = call
        self._letters = letters
        self._start = start
        self._world = world
        self._opened = opened
        self._on_thread = on_thread
        self._is_async = is_async
        self._arguments = Arguments(call)

    def heard(self, event: BreakerEvent) -> None:
        """Begin when the breaker has closed."""
        if event.kind == "closed":
            self._start(self.replay())

    async def replay(self) -> None:
        """Make the calls again whose letters are pending, oldest first."""
        replayer = Replayer(self._letters(), self._handler, self._world)
        try:
            await replayer.replay(Selection(domain=self._domain), Manner(concurrency=self._breaker.policy.probes))
        except HoldfastError as error:
            logger.warning("Replaying the dead letters of %r failed; the rest stays pending: %s", self._domain, error)
        except Exception:
            logger.exception("Replaying the dead letters of %r failed; the rest stays pending.", self._domain)
        finally:
            await replayer.close()

    def _handler(self, letter: FailedOperationData) -> Handle | None:
        if letter.metadata.get("protect") != self._name or self._breaker.state != "closed":
            return None
        return self._again

    async def _again(self, letter: FailedOperationData) -> Any:
        args, kwargs = self._arguments.of(self._opened(letter))
        if self._is_async:
            return await self._call(*args, **kwargs)
        return await self._on_thread(self._call, *args, **kwargs)


__all__ = ["ReplaysOnClose"]
