"""The idempotency stores for code without an event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.db.session import run_sync
from holdfast.stores.blocking import BlockingStore
from holdfast.stores.idempotency.store import IdempotencyStore

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping
    from datetime import datetime

    from holdfast.model.workflow import Duration
    from holdfast.stores.idempotency.entry import Claim, IdempotencyEntry

T = TypeVar("T")


class SyncIdempotencyStore(BlockingStore[IdempotencyStore]):
    """Any idempotency store, called from threads; its loop is *portal*'s, and one in memory needs none."""

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return run_sync(work) if self._store.at_once else super()._call(work)

    def get(self, key: str) -> IdempotencyEntry | None:
        """Return what is known of *key*; None if nothing is, or it has expired. A claim has the ``status_code`` 0."""
        return self._call(self._store.get(key))

    def set(
        self,
        key: str,
        fingerprint: str,
        response_data: Any,
        status_code: int = 200,
        headers: Mapping[str, Any] | None = None,
        ttl_seconds: Duration | None = None,
    ) -> bool:
        """Store a result without a claim; False, and nothing is changed, if the key has a result or is claimed.

        ``CannotSerialize`` names the part of *response_data* or *headers* that does not fit JSON.
        """
        return self._call(self._store.set(key, fingerprint, response_data, status_code, headers, ttl_seconds))

    def claim(
        self,
        key: str,
        fingerprint: str,
        *,
        lease_seconds: Duration | None = None,
        token: str | None = None,
        note: str | None = None,
        fleeting: bool = False,
    ) -> Claim:
        """Take *key* if nobody has it, and say how that went, in one step. Exactly one of many claimers wins.

        A claim or result that has expired counts as nobody's. The winner has the key for *lease_seconds*: until then
        it must store a result, release the key or extend the claim. *token* is a text of the caller's own that no
        other claim has; a second claim under it wins again. A claim whose caller is cancelled meanwhile is released.

        *note* stays with the claim. Whoever takes over a claim that has expired, with the same fingerprint, gets the
        note of that claim instead: it may name what the worker that died had begun.

        A *fleeting* claim holds against every living worker, and may be gone after the whole machine went down, its
        worker with it. On SQLite it does not wait for the disk; elsewhere it is as any other.
        """
        return self._call(
            self._store.claim(key, fingerprint, lease_seconds=lease_seconds, token=token, note=note, fleeting=fleeting)
        )

    def try_claim(
        self, key: str, fingerprint: str, *, lease_seconds: Duration | None = None, token: str | None = None
    ) -> bool:
        """Take *key* if nobody has it; return whether it was taken. ``claim`` says more."""
        return self._call(self._store.try_claim(key, fingerprint, lease_seconds=lease_seconds, token=token))

    def store_result(
        self,
        key: str,
        response_data: Any,
        status_code: int = 200,
        headers: Mapping[str, Any] | None = None,
        *,
        ttl_seconds: Duration | None = None,
        token: str | None = None,
    ) -> None:
        """End the claim of *key* with a result, which lives for *ttl_seconds* from now.

        ``ClaimLost``, and nothing is changed, unless the claim is this caller's: it holds the token, or gives it. A
        claim that has expired and was not taken by another still counts. ``CannotSerialize`` names the part that does
        not fit JSON; the claim stays.
        """
        self._write(
            lambda store: store.store_result(
                key, response_data, status_code, headers, ttl_seconds=ttl_seconds, token=token
            )
        )

    def release_claim(self, key: str, *, token: str | None = None) -> bool:
        """Give the key back without a result; False, and nothing is changed, if the claim is not this caller's."""
        return self._write(lambda store: store.release_claim(key, token=token))

    def extend_claim(self, key: str, *, lease_seconds: Duration | None = None, token: str | None = None) -> bool:
        """Have the claim last for *lease_seconds* from now; False if it is not, or no longer, this caller's."""
        return self._write(lambda store: store.extend_claim(key, lease_seconds=lease_seconds, token=token))

    def cleanup(self, before: datetime | str | None = None) -> int:
        """Remove what has expired, some at a time, and return how much that was.

        With *before*, an aware time or its ISO-8601 text, only what expired by then. A claim that has expired is left
        for a day, in which its owner may still end it.
        """
        return self._call(self._store.cleanup(before))


__all__ = ["SyncIdempotencyStore"]
