"""A breaker for each host, tenant or whatever has a key, up to so many of them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Unpack

from holdfast.errors import ConfigurationError
from holdfast.resilience.breaker import CircuitBreaker

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.model.world import World
    from holdfast.resilience.events import Listener
    from holdfast.resilience.policy import BreakerOptions
    from holdfast.resilience.sharing import Later
    from holdfast.stores.breakers.blocking import BlockingBreakers
    from holdfast.stores.breakers.interface import AsyncCircuitBreakerStateRepository


class KeyedBreakers:
    """Breakers by key: ``breakers["example.com"]`` is the breaker ``name:example.com``, made when first asked for.

    At most *most* are kept. For one more the one that has not been used for longest goes, a closed one if there is one;
    what the fleet has stored of it stays.
    """

    def __init__(
        self,
        name: str,
        *,
        most: int = 1000,
        repository: BlockingBreakers | AsyncCircuitBreakerStateRepository | Later | None = None,
        listeners: Iterable[Listener] = (),
        world: World | None = None,
        **options: Unpack[BreakerOptions],
    ) -> None:
        if most < 1:
            raise ConfigurationError(f"At least one breaker must be kept for {name!r}, not {most}.")
        self.name = name
        self.most = most
        self._repository = repository
        self._listeners = tuple(listeners)
        self._world = world
        self._options = options
        self._breakers: OrderedDict[str, CircuitBreaker] = OrderedDict()
        self._lock = threading.Lock()

    def __getitem__(self, key: str) -> CircuitBreaker:
        """Return the breaker of *key*."""
        with self._lock:
            breaker = self._breakers.get(key)
            if breaker is None:
                if len(self._breakers) >= self.most:
                    self._drop_one()
                breaker = self._breakers[key] = self._made(key)
            else:
                self._breakers.move_to_end(key)
        return breaker

    def __len__(self) -> int:
        return len(self._breakers)

    def __contains__(self, key: object) -> bool:
        return key in self._breakers

    def begin_anew(self) -> None:
        """Have each of them stand alone until the repository is found again: in a forked child."""
        self._lock = threading.Lock()
        for breaker in self._breakers.values():
            breaker.begin_anew()

    def _made(self, key: str) -> CircuitBreaker:
        return CircuitBreaker(
            f"{self.name}:{key}",
            repository=self._repository,
            listeners=self._listeners,
            world=self._world,
            **self._options,
        )

    def _drop_one(self) -> None:
        closed = (key for key, breaker in self._breakers.items() if breaker.state == "closed")
        key = next(closed, None) or next(iter(self._breakers))
        self._breakers.pop(key).end()


__all__ = ["KeyedBreakers"]
