"""Breakers in Redis: records in one hash, put back only if nobody has written meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.core.backoff import backoff
from holdfast.core.breaker import Delete, decide, time_of
from holdfast.core.numbers import count
from holdfast.model.world import RealWorld
from holdfast.stores.breakers import door
from holdfast.stores.breakers.deciding import Deciding
from holdfast.stores.breakers.documents import (
    Applied,
    read,
    read_change,
    read_for,
    read_receipts,
    written,
    written_receipts,
)
from holdfast.stores.breakers.facts import HISTORY_KEPT
from holdfast.stores.breakers.watching import POLL_EVERY, Sighting, Watching, ended, sighted
from holdfast.stores.redis import tagged
from holdfast.stores.ways import check_link

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from holdfast.core.breaker import Event
    from holdfast.model.breaker import CircuitBreakerChange, CircuitBreakerStateData
    from holdfast.model.world import World
    from holdfast.stores.breakers.interface import Watcher
    from holdfast.stores.redis import RedisLink

logger = logging.getLogger("holdfast.breakers")

_LUA = Path(__file__).with_name("lua")
_PUT, _READ, _OPEN, _ALL, _HISTORY = (_LUA / f"{name}.lua" for name in ("put", "read", "open", "all", "history"))
_RECEIPTS_KEPT = 120  # seconds: twice as long as a call is tried again
_LISTEN = 1.0


class _Asked(NamedTuple):
    event: Event
    reply: asyncio.Future[Applied]


class AsyncRedisCircuitBreakerStateRepository(Deciding):
    """The repository in Redis. All keys have one hash tag, ``{prefix}``.

    What is asked of one breaker at the same time is decided together and put back once. Other processes are told by
    pub/sub, and find out by a poll every *poll_interval* seconds if they were not.
    """

    def __init__(
        self,
        link: RedisLink,
        *,
        prefix: str = "holdfast",
        world: World | None = None,
        poll_interval: float = POLL_EVERY,
    ) -> None:
        check_link(self, link)
        super().__init__(world or RealWorld(), f"redis {link.address} {prefix}")
        self._link = link
        self._states = f"{tagged(prefix)}:breakers"
        self._channel = f"{self._states}:changes"
        self._asked: dict[str, list[_Asked]] = {}
        self._at_work: set[asyncio.Task[None]] = set()
        self._watching = Watching(self._look, poll_interval)
        self._heard = self._watching.hints = _Heard()
        self._listener: asyncio.Task[None] | None = None

    async def initialize(self) -> None:
        """Reach the server; a second call changes nothing."""
        await self._link.initialize()

    async def close(self) -> None:
        """End what watches, after the changes that are under way; the link stays open."""
        listener, self._listener = self._listener, None
        if listener is not None:
            await ended(listener)
        await self._watching.stop()
        await asyncio.gather(*self._at_work, return_exceptions=True)

    async def apply(self, service_name: str, event: Event) -> Applied:
        """Do what the core decides about *event*, together with whatever is asked of the breaker at the same time."""
        reply: asyncio.Future[Applied] = asyncio.get_running_loop().create_future()
        waiting = self._asked.get(service_name)
        if waiting is not None:
            waiting.append(_Asked(event, reply))
        else:
            self._asked[service_name] = [_Asked(event, reply)]
            task = asyncio.create_task(self._work(service_name), name=f"holdfast-breaker-{service_name}")
            self._at_work.add(task)
            task.add_done_callback(self._at_work.discard)
        return await reply

    async def _work(self, service_name: str) -> None:
        """Make what is asked of one breaker, batch by batch, until nothing is left."""
        while waiting := self._asked[service_name]:
            # A deletion is by itself: what comes after begins anew, and what comes before may fail where it does not.
            deletion = next((at for at, each in enumerate(waiting) if isinstance(each.event, Delete)), len(waiting))
            asked, self._asked[service_name] = waiting[: deletion or 1], waiting[deletion or 1 :]
            try:
                outcomes = await self._put(service_name, [each.event for each in asked])
            except Exception as error:  # noqa: BLE001 -- the service loop: told to whoever asked
                outcomes = [error] * len(asked)
            for each, outcome in zip(asked, outcomes, strict=True):
                if each.reply.done():  # whoever asked was cancelled
                    continue
                if isinstance(outcome, Exception):
                    each.reply.set_exception(outcome)
                else:
                    each.reply.set_result(outcome)
        del self._asked[service_name]

    async def _put(self, service_name: str, events: Sequence[Event]) -> Sequence[Any]:
        key = self._world.new_id()
        now_ms, text = await self._link.look(_READ, [self._states], [service_name])
        failures = 0
        while True:
            outcomes, changes = _decided(service_name, events, text, _moment(now_ms))
            record = outcomes[-1].record
            reply = await self._link.run(
                _PUT,
                self._keys(service_name, key),
                [
                    *(service_name, text, _text(record, text), _opened(record)),
                    *(written_receipts(outcomes), _RECEIPTS_KEPT, HISTORY_KEPT, self._channel),
                    *changes,
                ],
                again=True,
            )
            if reply[0] != 0:
                outcomes = read_receipts(reply[1]) if reply[0] == 2 else outcomes
                self._told(service_name, outcomes[-1])
                return outcomes
            _, text, now_ms = reply
            failures += 1
            await asyncio.sleep(backoff(failures, base=0.0005, cap=0.02, draw=self._world.random.random()))

    def _told(self, service_name: str, last: Applied) -> None:
        stamp = "-" if last.record is None else _stamp(last.record)
        self._watching.changed(Sighting(service_name, stamp, last.record, last.now))

    def _keys(self, service_name: str, key: str) -> list[str]:
        states = self._states
        return [states, f"{states}:open", f"{states}:history:{service_name}", f"{states}:receipt:{key}"]

    async def get_by_service_name(self, service_name: str) -> CircuitBreakerStateData | None:
        _, text = await self._link.look(_READ, [self._states], [door.name(service_name)])
        return read(text) if text else None

    async def get_all_states(self) -> list[CircuitBreakerStateData]:
        found = [read(text) for text in await self._link.look(_ALL, [self._states])]
        return sorted(found, key=lambda record: record.service_name)

    async def get_open_states(self, limit: int | None = None) -> list[CircuitBreakerStateData]:
        most = -1 if limit is None else count(limit, "limit")
        return [read(text) for text in await self._link.look(_OPEN, self._keys("", "")[:2], [most])]

    async def get_history(self, service_name: str, limit: int = 100) -> list[CircuitBreakerChange]:
        keys, most = self._keys(door.name(service_name), "")[2:3], count(limit, "limit")
        return [read_change(text) for text in await self._link.look(_HISTORY, keys, [most])]

    def watch(self, service_name: str, watcher: Watcher) -> Callable[[], None]:
        """Tell *watcher* soon how the breaker is, and after every change; on the loop. Return what ends that."""
        if self._listener is None:
            self._listener = asyncio.create_task(self._listen(), name="holdfast-breakers-listener")
        return self._watching.add(door.name(service_name), watcher)

    async def _look(self, stamps: Mapping[str, str]) -> list[Sighting]:
        names = list(stamps)
        now_ms, *texts = await self._link.look(_READ, [self._states], names)
        seen = [_sighted(name, text, _moment(now_ms)) for name, text in zip(names, texts, strict=True)]
        return [each for each in seen if each.stamp != stamps[each.service_name]]

    async def _listen(self) -> None:
        """Look at once when another process tells that it has changed something."""
        failures = 0
        while True:
            try:
                async with self._link.client.pubsub() as heard:
                    await heard.subscribe(self._channel)
                    self._heard.alive = True
                    self._watching.wake()  # what was told before was not heard
                    failures = 0
                    while True:
                        if await heard.get_message(ignore_subscribe_messages=True, timeout=_LISTEN) is not None:
                            self._watching.wake()
            except Exception as error:  # noqa: BLE001 -- the service loop: the poll goes on meanwhile
                self._heard.alive = False
                failures += 1
                logger.debug("Listening for changes of breakers failed and is tried again: %s", type(error).__name__)
                with contextlib.suppress(TimeoutError):
                    await asyncio.sleep(backoff(failures, base=0.1, cap=2.0, draw=self._world.random.random()))


class _Heard:
    """Whether changes of others are heard; one's own are told by the script that makes them."""

    alive = False

    def tell(self) -> None:
        """Do nothing."""


def _decided(
    service_name: str, events: Sequence[Event], text: bytes | str, now: datetime
) -> tuple[list[Applied], list[str]]:
    """Return what comes of *events* one after the other, and the entries for the history."""
    record = read_for(events[0], service_name, text)
    outcomes: list[Applied] = []
    changes: list[str] = []
    for event in events:
        at = time_of(record, now)
        record, answer, change = decide(record, service_name, event, at)
        if change is not None:
            changes.append(written(change))
        outcomes.append(Applied(record, answer, at))
    return outcomes, changes


def _text(record: CircuitBreakerStateData | None, before: bytes | str) -> bytes | str:
    if record is None:
        return ""
    unchanged = before and read(before).version == record.version
    return before if unchanged else written(record)


def _opened(record: CircuitBreakerStateData | None) -> str:
    if record is None or not record.is_open:
        return ""
    return "-1" if record.opened_at is None else repr(record.opened_at.timestamp())


def _stamp(record: CircuitBreakerStateData) -> str:
    return f"{record.created_at} {record.version}"


def _sighted(service_name: str, text: bytes | str, now: datetime) -> Sighting:
    seen = sighted(service_name, "-", text, now)
    if seen.record is not None:
        return seen._replace(stamp=_stamp(seen.record))
    return seen if seen.unreadable is None else seen._replace(stamp=repr(text))


def _moment(milliseconds: Any) -> datetime:
    return datetime.fromtimestamp(float(milliseconds) / 1000, UTC)


__all__ = ["AsyncRedisCircuitBreakerStateRepository"]
