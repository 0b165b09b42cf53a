"""Requests deduplicated by hand: for frameworks without middleware, and for gateways of one's own."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypedDict

from holdfast.core.durations import SHORTEST_LEASE, checked_seconds
from holdfast.errors import ClaimLost, ConfigurationError, KeyConflict, KeyInUse
from holdfast.model.world import RealWorld
from holdfast.stores.idempotency.entry import ClaimState
from holdfast.stores.idempotency.memory import InMemoryIdempotencyStore
from holdfast.stores.idempotency.store import IdempotencyStore
from holdfast.web.core import UNSTORED_HEADERS, key_in, store_key
from holdfast.web.fingerprint import RequestFingerprinter

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from holdfast.model.workflow import Duration
    from holdfast.model.world import World
    from holdfast.stores.idempotency.entry import IdempotencyEntry

_HIGHEST_KEPT = 399
HEADER = "idempotency-key"


class CachedResponse(TypedDict):
    """The answer that a request got before."""

    data: Any
    status_code: int
    headers: dict[str, Any]
    cached: bool
    cache_age_seconds: float


class RequestDeduplicator:
    """Tells whether a request was made before, by its ``Idempotency-Key``, and what it was answered.

    Without *storage_backend* answers are kept in memory, at most *max_cache_size*, the least recently used dropped
    first; with an idempotency store they are kept there, for every process. *include_headers* are headers that make
    another request of a request. Requests without a key are never merged, unless *merge_keyless* is set: then those
    that are equal count as one.
    """

    def __init__(
        self,
        ttl_seconds: Duration = 3600,
        max_cache_size: int = 10_000,
        *,
        include_headers: Iterable[str] = (),
        storage_backend: IdempotencyStore | None = None,
        lease_seconds: Duration = 60,
        merge_keyless: bool = False,
        world: World | None = None,
    ) -> None:
        self._ttl = checked_seconds(ttl_seconds, "ttl_seconds", least=SHORTEST_LEASE)
        self._lease = checked_seconds(lease_seconds, "lease_seconds", least=SHORTEST_LEASE)
        self._merge_keyless = merge_keyless
        self._world: World = world or RealWorld()
        self._fingerprints = RequestFingerprinter(include_headers)
        if storage_backend is None:
            storage_backend = InMemoryIdempotencyStore(max_entries=max_cache_size, world=world)
        elif not isinstance(storage_backend, IdempotencyStore):
            raise ConfigurationError(f"storage_backend is an idempotency store, no {type(storage_backend).__name__}.")
        self._store = storage_backend
        self._hits = 0
        self._misses = 0

    async def check_duplicate(
        self,
        method: str,
        path: str,
        query_params: Mapping[str, Any] | str | bytes | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        *,
        scope: str | None = None,
    ) -> CachedResponse | None:
        """Return the answer the request got before, or None: then it is the caller's to carry out.

        None claims the request: the caller must end it with ``cache_response`` or ``release``; until then, or until its
        lease is over, another gets ``KeyInUse``. ``KeyConflict`` if the key came with another request before. The key
        is taken from *headers* if it is not given; keys of different *scope* (a tenant, a user) never meet.
        """
        mark = self._fingerprints.create_fingerprint(method, path, query_params, body, headers)
        key = self._key(mark, headers, idempotency_key, scope)
        if key is None:
            return None
        claim = await self._store.claim(key, mark, lease_seconds=self._lease, fleeting=True)
        if claim.won:
            self._misses += 1
            return None
        if claim.state is ClaimState.CONFLICT:
            raise KeyConflict("The idempotency key was used with a different request: use a new key for each request.")
        if claim.result is None:
            raise KeyInUse("A request with this idempotency key is being carried out: try again in a moment.")
        self._hits += 1
        return self._cached(claim.result)

    async def cache_response(
        self,
        method: str,
        path: str,
        query_params: Mapping[str, Any] | str | bytes | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        response_data: Any = None,
        status_code: int = 200,
        response_headers: Mapping[str, Any] | None = None,
        *,
        scope: str | None = None,
    ) -> bool:
        """Store the answer of a request that ``check_duplicate`` has left to this caller; return whether it was stored.

        Answers of 400 and above are not: the request may be tried again. Nor are headers that are of one client or one
        connection, such as ``Set-Cookie``.
        """
        key = self._key_of(method, path, query_params, body, headers, idempotency_key, scope)
        if key is None:
            return False
        if status_code > _HIGHEST_KEPT:
            await self._store.release_claim(key)
            return False
        kept = {name: value for name, value in (response_headers or {}).items() if name.lower() not in UNSTORED_HEADERS}
        try:
            await self._store.store_result(key, response_data, status_code, kept, ttl_seconds=self._ttl)
        except ClaimLost:
            return False
        return True

    async def release(
        self,
        method: str,
        path: str,
        query_params: Mapping[str, Any] | str | bytes | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        *,
        scope: str | None = None,
    ) -> bool:
        """Give up a request that ``check_duplicate`` has left to this caller; it may be tried again."""
        key = self._key_of(method, path, query_params, body, headers, idempotency_key, scope)
        return key is not None and await self._store.release_claim(key)

    def get_stats(self) -> dict[str, int]:
        """Return how many requests were answered from the store, and how many were not, by this object."""
        return {"hits": self._hits, "misses": self._misses}

    async def close(self) -> None:
        """Finish what is being written. A store that was given stays its owner's."""
        await self._store.close()

    def _key_of(
        self,
        method: str,
        path: str,
        query_params: Any,
        body: Any,
        headers: Mapping[str, str] | None,
        key: str | None,
        scope: str | None,
    ) -> str | None:
        mark = self._fingerprints.create_fingerprint(method, path, query_params, body, headers)
        return self._key(mark, headers, key, scope)

    def _key(self, mark: str, headers: Mapping[str, str] | None, key: str | None, scope: str | None) -> str | None:
        """Return the key as it is stored; None for a request that is never merged with another."""
        sent = {name.lower(): value for name, value in (headers or {}).items()}.get(HEADER)
        given = key or (sent and (key_in(sent) or sent)) or None  # quoted and bare are one key, as in the middlewares
        if given is not None and not isinstance(given, str):
            raise ValueError(f"An idempotency key is a text, not {given!r:.50}.")
        if given is not None:
            return store_key(given, scope)
        return store_key(f"request:{mark}", scope) if self._merge_keyless else None

    def _cached(self, entry: IdempotencyEntry) -> CachedResponse:
        created = datetime.fromisoformat(entry["created_at"])
        age = (datetime.fromtimestamp(self._world.now(), UTC) - created).total_seconds()
        return {
            "data": entry["response_data"],
            "status_code": entry["status_code"],
            "headers": entry["headers"],
            "cached": True,
            "cache_age_seconds": max(0.0, age),
        }


__all__ = ["CachedResponse", "RequestDeduplicator"]
