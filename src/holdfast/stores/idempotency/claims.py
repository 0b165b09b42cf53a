"""Work that is done once for each key: claims that are waited for, last while the work goes on, and are ended.

::

    hold ──► take ──► None               another is at it: wait for so long as ``patience`` says, and take again
               ├────► a result           the work was done before
               └────► the claim          it is this caller's: do the work, and then
                        ├──► keep        the result, for everybody who comes later
                        └──► drop        the key is free again
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import msgspec

from holdfast import faults
from holdfast.core.backoff import backoff
from holdfast.errors import ClaimLost, HoldfastError, KeyConflict, KeyInUse
from holdfast.stores.idempotency.entry import IN_PROGRESS, Kept, Result
from holdfast.stores.idempotency.extending import Extending
from holdfast.stores.keys import checked_key

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from holdfast.model.world import World

OnConflict: TypeAlias = Literal["reject", "return_stored"]
logger = logging.getLogger("holdfast.idempotency")

NO_NOTE = "null"
DONE = 200  # the status code of a result that is no answer to a request


class ClaimVerb(Protocol):
    """A backend's verb that claims; see ``IdempotencyStore``."""

    def __call__(
        self, key: str, fingerprint: str, token: str, lease_ms: int, note: str, *, fleeting: bool
    ) -> Awaitable[Kept]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Verbs:
    """What a store does for claims, each of them atomic."""

    new_token: Callable[[], str]
    claim: ClaimVerb
    finish: Callable[[str, str | None, str, Result], Awaitable[bool]]
    release: Callable[[str, str | None], Awaitable[bool]]
    extend: Callable[[str, str, int], Awaitable[bool]]


class Held(msgspec.Struct, eq=False):
    """A key and the token under which a caller has it, or may come to have it.

    *is_ours* says that the claim is this caller's, or may be: then it has to be kept or dropped. *is_over* says that it
    was dropped, perhaps before it was won. *by_thread* says that the caller is a thread, for which ``close`` waits.
    """

    key: str
    mark: str
    token: str
    note: str
    by_thread: bool
    is_ours: bool = False
    is_over: bool = False
    extending: Extending | None = None
    deadline: float | None = None
    tries: int = 0


class Claiming:
    """What is the same for claims of every store: tokens, conflicts, and for how long another is waited for.

    A key that another is at is waited for during *waits* seconds. A key that comes with another fingerprint is a
    conflict: ``"reject"`` raises, ``"return_stored"`` takes it for the same.
    """

    def __init__(
        self, new_token: Callable[[], str], world: World, *, waits: float, on_conflict: OnConflict = "reject"
    ) -> None:
        self._new_token = new_token
        self._world = world
        self._waits = waits
        self._rejects = on_conflict == "reject"

    def hold(self, key: str, mark: str, note: str = NO_NOTE, *, by_thread: bool = False) -> Held:
        """Return *key* with a fresh token, to be taken. *note*, JSON text, stays with the claim."""
        return Held(checked_key(key, "idempotency key"), mark, self._new_token(), note, by_thread)

    def patience(self, held: Held) -> float:
        """Return for how many seconds to wait before the key is taken again; ``KeyInUse`` if that was long enough."""
        now = self._world.monotonic()
        if held.deadline is None:
            held.deadline = now + self._waits
        if held.deadline <= now:
            raise KeyInUse(
                f"The idempotency key {held.key!r} is claimed by another worker, which has no result yet. "
                "Try again after a while."
            )
        held.tries += 1
        pause = backoff(held.tries, base=0.01, cap=0.5, draw=self._world.random.random())
        return min(held.deadline - now, pause)

    def _found(self, held: Held, kept: Kept) -> Kept | None:
        """Return what somebody else has left under the key; None if that is no result yet."""
        held.is_ours = False
        if kept.fingerprint != held.mark and self._rejects:
            raise KeyConflict(
                f"The idempotency key {held.key!r} was used for another workflow or with other parameters. "
                "Use a key of its own for each call."
            )
        return None if kept.status_code == IN_PROGRESS else kept


class Claims(Claiming):
    """Claims of a store that others share.

    Results live for *ttl_ms*. A claim lasts for *lease_ms* after its worker died; while it lives the claim is extended,
    on the loop that took it.
    """

    def __init__(
        self, verbs: Verbs, world: World, *, ttl_ms: int, lease_ms: int, waits: float, on_conflict: OnConflict
    ) -> None:
        super().__init__(verbs.new_token, world, waits=waits, on_conflict=on_conflict)
        self._verbs = verbs
        self._ttl_ms = ttl_ms
        self._lease_ms = lease_ms
        self._threads: set[Held] = set()
        self._threads_gone = asyncio.Event()

    async def close(self) -> None:
        """Wait for threads that are at work under a claim."""
        while self._threads:
            self._threads_gone.clear()
            await self._threads_gone.wait()

    async def take(self, held: Held, *, fleeting: bool = True) -> Kept | None:
        """Claim the key if nobody has it. Return the claim, or the result there is; None if another is at it.

        ``KeyConflict`` if the key was used for something else. *fleeting* is as in ``IdempotencyStore.claim``.
        """
        held.is_ours = True  # perhaps: whoever is interrupted from here on has to drop it
        lease, note = self._lease_ms, held.note
        try:
            kept = await self._verbs.claim(held.key, held.mark, held.token, lease, note, fleeting=fleeting)
        except Exception:
            held.is_ours = False
            raise
        faults.point("key.claimed")
        if kept.token != held.token:
            return self._found(held, kept)
        if held.is_over:  # its caller, a thread, was interrupted and has dropped it
            await self.drop(held)
        else:
            held.extending = Extending(partial(self._verbs.extend, held.key, held.token, lease), lease / 1000)
            if held.by_thread:
                self._threads.add(held)
        return kept

    async def keep(self, held: Held, data: str, headers: str = "{}") -> None:
        """End the claim with a result, JSON text as its headers.

        ``ClaimLost``, and nothing is changed, if another has the key.
        """
        if held.extending is not None:
            held.extending.end()
        faults.point("key.before_result")
        stored = await self._verbs.finish(held.key, held.token, held.token, (data, DONE, headers, self._ttl_ms))
        faults.point("key.result_stored")
        if not stored:
            raise claim_lost(held.key)
        self._gone(held)

    async def drop(self, held: Held) -> None:
        """Give the key back without a result; nothing happens if another has it."""
        held.is_over = True
        if held.extending is not None:
            held.extending.end()
        try:
            await self._verbs.release(held.key, held.token)
        finally:
            self._gone(held)

    def _gone(self, held: Held) -> None:
        self._threads.discard(held)
        self._threads_gone.set()


@contextmanager
def giving_back(held: Held) -> Iterator[None]:
    """Drop a claim in here because of an error, which is the one to be raised: that of a storage is only logged.

    The key is free when its claim expires.
    """
    try:
        yield
    except HoldfastError as error:
        logger.warning("The idempotency key %r could not be given back, and has to expire: %s", held.key, error)


def claim_lost(key: str) -> ClaimLost:
    """Return the error of a caller that comes too late with a result."""
    return ClaimLost(
        f"The result of the key {key!r} was not stored: its claim is not, or no longer, this worker's. "
        "Extend a claim whose work takes long, or give it a longer lease."
    )


__all__ = ["DONE", "NO_NOTE", "Claiming", "Claims", "Held", "OnConflict", "Verbs", "claim_lost", "giving_back"]
