"""The idempotency store in the memory of one process: for tests, and in front of an application that is one process."""

from __future__ import annotations

from collections import OrderedDict
from itertools import count
from typing import TYPE_CHECKING

from holdfast.stores.idempotency.entry import IN_PROGRESS, Kept, Result
from holdfast.stores.idempotency.store import ABANDONED_MS, DEFAULT_LEASE, DEFAULT_TTL, IdempotencyStore
from holdfast.stores.moments import utc_text_of

if TYPE_CHECKING:
    from holdfast.model.workflow import Duration
    from holdfast.model.world import World

_numbers = count(1)


class InMemoryIdempotencyStore(IdempotencyStore):
    """Idempotency keys of one process, on one event loop; they are gone with it.

    At most *max_entries* results are kept: the one that was not asked for longest makes room. A claim never does.
    """

    def __init__(
        self,
        *,
        max_entries: int = 10_000,
        ttl_seconds: Duration = DEFAULT_TTL,
        lease_seconds: Duration = DEFAULT_LEASE,
        world: World | None = None,
    ) -> None:
        if max_entries < 1:
            raise ValueError(f"max_entries is at least 1, not {max_entries}.")
        place = f"memory {next(_numbers)}"
        super().__init__(place, ttl_seconds=ttl_seconds, lease_seconds=lease_seconds, world=world)
        self._most = max_entries
        self._claims: dict[str, Kept] = {}
        self._results: OrderedDict[str, Kept] = OrderedDict()  # the one that was asked for last stands last

    def __len__(self) -> int:
        return len(self._claims) + len(self._results)

    async def _read(self, key: str) -> Kept | None:
        return self._live(key)

    async def _claim(
        self,
        key: str,
        fingerprint: str,
        token: str,
        lease_ms: int,
        note: str,
        *,
        fleeting: bool,  # noqa: ARG002 -- all of it is
    ) -> Kept:
        live = self._live(key)
        if live is not None and not (live.status_code == IN_PROGRESS and live.token == token):
            return live
        before = self._claims.get(key)
        if before is not None and before.fingerprint == fingerprint:
            note = before.response_data
        self._forget(key)
        claim = Kept(key, fingerprint, note, IN_PROGRESS, "{}", self._later(0), self._later(lease_ms), token)
        self._claims[key] = claim
        return claim

    async def _finish(self, key: str, token: str | None, mark: str, result: Result) -> bool:
        there = self._results.get(key)
        if there is not None:
            return (there.token, there.response_data, there.status_code, there.headers) == (mark, *result[:3])
        claim = self._held(key, token)
        if claim is None:
            return False
        del self._claims[key]
        self._keep(key, claim.fingerprint, claim.created_at, mark, result)
        return True

    async def _release(self, key: str, token: str | None) -> bool:
        return self._held(key, token) is not None and self._claims.pop(key) is not None

    async def _extend(self, key: str, token: str, lease_ms: int) -> bool:
        claim = self._held(key, token)
        if claim is not None:
            self._claims[key] = claim._replace(expires_at=self._later(lease_ms))
        return claim is not None

    async def _put(self, key: str, fingerprint: str, mark: str, result: Result) -> bool:
        if self._live(key) is not None:
            return False
        self._forget(key)
        self._keep(key, fingerprint, self._later(0), mark, result)
        return True

    async def _sweep(self, before: str | None, most: int) -> int:
        now = self._later(0)
        until = now if before is None else min(before, now)
        abandoned = min(until, self._later(-ABANDONED_MS))
        over = [kept.key for kept in self._claims.values() if kept.expires_at <= abandoned]
        over += [kept.key for kept in self._results.values() if kept.expires_at <= until]
        over = over[:most]
        for key in over:
            self._forget(key)
        return len(over)

    def _live(self, key: str) -> Kept | None:
        found = self._claims.get(key) or self._results.get(key)
        if found is None or found.expires_at <= self._later(0):
            return None
        if key in self._results:
            self._results.move_to_end(key)
        return found

    def _held(self, key: str, token: str | None) -> Kept | None:
        claim = self._claims.get(key)
        if claim is None:
            return None
        is_mine = claim.expires_at <= self._later(0) if token is None else claim.token == token
        return claim if is_mine else None

    def _keep(self, key: str, fingerprint: str, created_at: str, mark: str, result: Result) -> None:
        data, status_code, headers, ttl_ms = result
        while len(self._results) >= self._most:
            self._results.popitem(last=False)
        self._results[key] = Kept(key, fingerprint, data, status_code, headers, created_at, self._later(ttl_ms), mark)

    def _forget(self, key: str) -> None:
        self._claims.pop(key, None)
        self._results.pop(key, None)

    def _later(self, milliseconds: int) -> str:
        return utc_text_of(self._world.now() + milliseconds / 1000)


__all__ = ["InMemoryIdempotencyStore"]
