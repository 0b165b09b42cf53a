"""Breakers in the memory of one process; safe for any number of threads and tasks."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from holdfast.core.breaker import decide
from holdfast.core.numbers import count
from holdfast.db.process import this_process
from holdfast.model.breaker import CircuitBreakerCloseAttempt, CircuitBreakerOpenAttempt, CircuitBreakerStateData
from holdfast.model.world import RealWorld
from holdfast.stores.breakers import door
from holdfast.stores.breakers.deciding import Deciding
from holdfast.stores.breakers.documented import by_age
from holdfast.stores.breakers.documents import Applied

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.breaker import Event
    from holdfast.model.breaker import CircuitBreakerChange
    from holdfast.model.world import World
    from holdfast.stores.breakers.interface import Watcher

_KEPT = 500


class AsyncInMemoryCircuitBreakerStateRepository(Deciding):
    """The repository in a dict. Its methods never wait, and what they return is nobody else's."""

    def __init__(self, *, world: World | None = None) -> None:
        world = world or RealWorld()
        super().__init__(world, f"memory {world.new_id()}")
        self._records: dict[str, CircuitBreakerStateData] = {}
        self._history: dict[str, deque[CircuitBreakerChange]] = defaultdict(lambda: deque(maxlen=_KEPT))
        self._watchers: dict[str, list[Watcher]] = {}
        self._lock = threading.RLock()
        this_process.tell(self)

    def forked(self) -> None:
        """Have a lock that nobody holds, in a forked child."""
        self._lock = threading.RLock()

    async def apply(self, service_name: str, event: Event) -> Applied:
        """Do what the core decides about *event*."""
        with self._lock:
            before = self._records.get(service_name)
            now = self._now()
            record, answer, change = decide(before, service_name, event, now)
            if record is None:
                self._records.pop(service_name, None)
                self._history.pop(service_name, None)
            else:
                self._records[service_name] = record
            if change is not None:
                self._history[service_name].append(change)
            if record is not before:
                for watcher in list(self._watchers.get(service_name, ())):
                    watcher.seen(record, now)
        return Applied(record, _answer(answer), now)

    async def get_by_service_name(self, service_name: str) -> CircuitBreakerStateData | None:
        record = self._records.get(door.name(service_name))
        return None if record is None else _apart(record)

    async def get_all_states(self) -> list[CircuitBreakerStateData]:
        with self._lock:
            return [_apart(self._records[name]) for name in sorted(self._records)]

    async def get_open_states(self, limit: int | None = None) -> list[CircuitBreakerStateData]:
        most = None if limit is None else count(limit, "limit")
        found = sorted((each for each in await self.get_all_states() if each.is_open), key=by_age)
        return found[:most]

    async def get_history(self, service_name: str, limit: int = 100) -> list[CircuitBreakerChange]:
        most = count(limit, "limit")
        with self._lock:
            return list(reversed(self._history.get(door.name(service_name), ())))[:most]

    def watch(self, service_name: str, watcher: Watcher) -> Callable[[], None]:
        """Tell *watcher* at once how the breaker is, and after every change; from the thread that makes it."""
        door.name(service_name)
        with self._lock:
            self._watchers.setdefault(service_name, []).append(watcher)
            watcher.seen(self._records.get(service_name), self._now())

        def end() -> None:
            with self._lock:
                left = [each for each in self._watchers.pop(service_name, ()) if each is not watcher]
                if left:
                    self._watchers[service_name] = left

        return end

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._world.now(), UTC)


def _answer(answer: Any) -> Any:
    if isinstance(answer, CircuitBreakerStateData):
        return _apart(answer)
    if isinstance(answer, (CircuitBreakerCloseAttempt, CircuitBreakerOpenAttempt)):
        return replace(answer, state=_apart(answer.state))
    return answer


def _apart(record: CircuitBreakerStateData) -> CircuitBreakerStateData:
    """Return the record with dicts of its own: whoever changes them changes nothing here."""
    return replace(record, metadata=deepcopy(record.metadata), reports=dict(record.reports))


__all__ = ["AsyncInMemoryCircuitBreakerStateRepository"]
