"""The idempotency store in the memory of one process: for tests, and in front of an application that is one process."""

from __future__ import annotations

import threading
from collections import OrderedDict
from datetime import datetime
from itertools import count
from typing import TYPE_CHECKING

import msgspec

from holdfast.core import numbers
from holdfast.core.durations import checked_seconds
from holdfast.db.process import this_process
from holdfast.stores.idempotency.entry import IN_PROGRESS
from holdfast.stores.idempotency.memory_claims import MemoryClaims
from holdfast.stores.idempotency.store import ABANDONED_MS, DEFAULT_LEASE, DEFAULT_TTL, IdempotencyStore
from holdfast.stores.moments import utc_text_of

if TYPE_CHECKING:
    from holdfast.model.workflow import Duration
    from holdfast.model.world import World
    from holdfast.stores.idempotency.entry import Result

_numbers = count(1)


class Remembered(msgspec.Struct, frozen=True, gc=False):
    """A key and what is known of it.

    *created* and *expires* are seconds since the epoch, and become text when somebody reads them. Whether it is over is
    decided by *over*, on the monotonic clock: a wall clock that is set hands no claim on.
    """

    key: str
    fingerprint: str
    response_data: str
    status_code: int
    headers: str
    created: float
    expires: float
    over: float
    token: str

    @property
    def created_at(self) -> str:
        """When it was claimed, or put."""
        return utc_text_of(self.created)

    @property
    def expires_at(self) -> str:
        """When it will be over."""
        return utc_text_of(self.expires)


class Memory:
    """The seven verbs of a backend on dictionaries, for any number of threads; see ``IdempotencyStore``."""

    def __init__(self, most: int, world: World) -> None:
        self._most = self._looks_at = most
        self._now = world.monotonic
        self._wall = world.now
        self._turn = threading.Lock()  # nobody waits while holding it
        self._claims: dict[str, Remembered] = {}
        self._results: OrderedDict[str, Remembered] = OrderedDict()  # the one that was asked for last stands last
        this_process.tell(self)

    def forked(self) -> None:
        """Forget who is at work: in a forked child, where nobody of them is."""
        self._turn = threading.Lock()
        self._claims = {}

    def __len__(self) -> int:
        return len(self._claims) + len(self._results)

    def new_token(self) -> str:
        """Return a token that no other claim of this process has."""
        return f"memory-{next(_numbers)}"

    def read(self, key: str) -> Remembered | None:
        """Return what is kept under *key* and has not expired."""
        with self._turn:
            return self._live(key, self._now())

    def claim(self, key: str, fingerprint: str, token: str, lease_ms: int, note: str) -> Remembered:
        """Keep a claim if what is kept has expired or is this token's claim; return what is kept then."""
        now = self._now()
        with self._turn:
            before = self._claims.get(key) or self._results.get(key)
            if before is not None:
                live = self._live(key, now)
                if live is not None and not (live.status_code == IN_PROGRESS and live.token == token):
                    return live
                if before.status_code == IN_PROGRESS and before.fingerprint == fingerprint:
                    note = before.response_data
                self._results.pop(key, None)
            elif len(self._claims) >= self._looks_at:
                self._make_room(now)
            wall, lease = self._wall(), lease_ms / 1000
            claim = Remembered(key, fingerprint, note, IN_PROGRESS, "{}", wall, wall + lease, now + lease, token)
            self._claims[key] = claim
            return claim

    def finish(self, key: str, token: str | None, mark: str, result: Result) -> bool:
        """Make a result of a claim; True as well if this very result is there already."""
        now = self._now()
        with self._turn:
            claim = self._held(key, token, now)
            if claim is not None:
                del self._claims[key]
                self._keep(key, claim.fingerprint, claim.created, now, mark, result)
                return True
            there = self._results.get(key)
            return there is not None and _result_of(there) == (mark, *result[:3])

    def release(self, key: str, token: str | None) -> bool:
        """Remove a claim."""
        with self._turn:
            return self._held(key, token, self._now()) is not None and self._claims.pop(key) is not None

    def extend(self, key: str, token: str, lease_ms: int) -> bool:
        """Have a claim expire so much later than now."""
        now = self._now()
        with self._turn:
            claim = self._held(key, token, now)
            if claim is not None:
                lease = lease_ms / 1000
                self._claims[key] = msgspec.structs.replace(claim, expires=self._wall() + lease, over=now + lease)
            return claim is not None

    def put(self, key: str, fingerprint: str, mark: str, result: Result) -> bool:
        """Keep a result if nothing is kept or what is has expired."""
        now = self._now()
        with self._turn:
            if self._live(key, now) is not None:
                return False
            self._forget(key)
            self._keep(key, fingerprint, self._wall(), now, mark, result)
            return True

    def sweep(self, before: str | None, most: int) -> int:
        """Remove up to *most* entries that have expired; return how many."""
        now = self._now()
        ago = 0.0 if before is None else self._wall() - datetime.fromisoformat(before).timestamp()
        until = now - max(0.0, ago)
        abandoned = min(until, now - ABANDONED_MS / 1000)
        with self._turn:
            over = [kept.key for kept in self._claims.values() if kept.over <= abandoned]
            over += [kept.key for kept in self._results.values() if kept.over <= until]
            over = over[:most]
            for key in over:
                self._forget(key)
        return len(over)

    def _make_room(self, now: float) -> None:
        """Forget the oldest claims that have expired: those that nobody ends would pile up for ever."""
        spare = len(self._claims) - self._most // 2
        over = [key for key, claim in self._claims.items() if claim.over <= now]
        for key in over[:spare]:
            del self._claims[key]
        self._looks_at = max(self._most, 2 * len(self._claims))  # so that a look is rare, however many are at work

    def _live(self, key: str, now: float) -> Remembered | None:
        found = self._claims.get(key)
        if found is None:
            found = self._results.get(key)
            if found is not None and found.over > now:
                self._results.move_to_end(key)
        return found if found is not None and found.over > now else None

    def _held(self, key: str, token: str | None, now: float) -> Remembered | None:
        claim = self._claims.get(key)
        if claim is None:
            return None
        is_mine = claim.over <= now if token is None else claim.token == token
        return claim if is_mine else None

    def _keep(self, key: str, fingerprint: str, created: float, now: float, mark: str, result: Result) -> None:
        data, status_code, headers, ttl_ms = result
        while len(self._results) >= self._most:
            self._results.popitem(last=False)
        ttl = ttl_ms / 1000
        expires, over = self._wall() + ttl, now + ttl
        self._results[key] = Remembered(key, fingerprint, data, status_code, headers, created, expires, over, mark)

    def _forget(self, key: str) -> None:
        self._claims.pop(key, None)
        self._results.pop(key, None)


class InMemoryIdempotencyStore(IdempotencyStore):
    """Idempotency keys of one process, for any number of threads and event loops; they are gone with it.

    At most *max_entries* results are kept: the one that was not asked for longest makes room. A claim does so only when
    it has expired, and there are as many claims: then its owner, who may end it for a day otherwise, has lost it.
    """

    at_once = True

    def __init__(
        self,
        *,
        max_entries: int = 10_000,
        ttl_seconds: Duration = DEFAULT_TTL,
        lease_seconds: Duration = DEFAULT_LEASE,
        world: World | None = None,
    ) -> None:
        place = f"memory {next(_numbers)}"
        super().__init__(place, ttl_seconds=ttl_seconds, lease_seconds=lease_seconds, world=world)
        most = numbers.count(max_entries, "max_entries", least=1, most=numbers.MOST_BITS)
        self._memory = Memory(most, self._world)

    def __len__(self) -> int:
        return len(self._memory)

    def memory_claims(self, *, wait_seconds: Duration) -> MemoryClaims:
        """Return how work is done once for each key, by plain calls; another is waited for during *wait_seconds*."""
        return MemoryClaims(
            self._memory, self._world, ttl_ms=self._ttl, waits=checked_seconds(wait_seconds, "wait_seconds")
        )

    def _new_token(self) -> str:
        return self._memory.new_token()

    async def _read(self, key: str) -> Remembered | None:
        return self._memory.read(key)

    async def _claim(
        self,
        key: str,
        fingerprint: str,
        token: str,
        lease_ms: int,
        note: str,
        *,
        fleeting: bool,  # noqa: ARG002 -- all of it is
    ) -> Remembered:
        return self._memory.claim(key, fingerprint, token, lease_ms, note)

    async def _finish(self, key: str, token: str | None, mark: str, result: Result) -> bool:
        return self._memory.finish(key, token, mark, result)

    async def _release(self, key: str, token: str | None) -> bool:
        return self._memory.release(key, token)

    async def _extend(self, key: str, token: str, lease_ms: int) -> bool:
        return self._memory.extend(key, token, lease_ms)

    async def _put(self, key: str, fingerprint: str, mark: str, result: Result) -> bool:
        return self._memory.put(key, fingerprint, mark, result)

    async def _sweep(self, before: str | None, most: int) -> int:
        return self._memory.sweep(before, most)


def _result_of(there: Remembered) -> tuple[str, str, int, str]:
    return there.token, there.response_data, there.status_code, there.headers


__all__ = ["InMemoryIdempotencyStore", "Memory", "Remembered"]
