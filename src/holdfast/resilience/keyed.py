"""A breaker for each host, tenant or whatever has a key, up to so many of them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Unpack
from weakref import WeakValueDictionary

from holdfast.core.texts import as_text
from holdfast.db.process import this_process
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

    At most *most* are kept. For one more the one that has not been asked for longest goes, a closed one if there is
    one; what the fleet has stored of it stays. One that somebody else has, as a function that it decorates does, goes
    on, and is the breaker of its key as long as it is there.
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
        self._there: WeakValueDictionary[str, CircuitBreaker] = WeakValueDictionary()
        self._kept: OrderedDict[str, CircuitBreaker] = OrderedDict()
        self._lock = threading.Lock()
        this_process.tell(self)

    def __getitem__(self, key: str) -> CircuitBreaker:
        """Return the breaker of *key*, which counts as its text: 5 and "5" are one."""
        if type(key) is not str:
            key = _text(key)
        with self._lock:
            breaker = self._kept.get(key)
            if breaker is not None:
                self._kept.move_to_end(key)
                return breaker
            dropped = self._drop_one() if len(self._kept) >= self.most else None
            breaker = self._kept[key] = self._there.get(key) or self._made(key)
            self._there[key] = breaker
        del dropped  # without the lock: it may end here
        return breaker

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, key: object) -> bool:
        return key is not None and _text(key) in self._kept

    def forked(self) -> None:
        """Have a lock that nobody holds, in a forked child."""
        self._lock = threading.Lock()

    def _made(self, key: str) -> CircuitBreaker:
        return CircuitBreaker(
            f"{as_text(self.name)}:{key}",
            repository=self._repository,
            listeners=self._listeners,
            world=self._world,
            **self._options,
        )

    def _drop_one(self) -> CircuitBreaker:
        closed = (key for key, breaker in self._kept.items() if breaker.state == "closed")
        return self._kept.pop(next(closed, next(iter(self._kept))))


def _text(key: object) -> str:
    if key is None:
        raise TypeError("The key of a breaker is text, a number or the like, not None: what has none would share one.")
    return as_text(key) if isinstance(key, str) else str(key)


__all__ = ["KeyedBreakers"]
