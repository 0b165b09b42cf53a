"""The idempotency store as its users see it, whatever keeps the rows.

What may be stored, which token is meant and what an answer looks like is decided here. A backend has seven verbs, each
of them atomic: they begin with an underscore and are described at the end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from holdfast import faults
from holdfast.core.durations import SHORTEST_LEASE, checked_seconds, milliseconds
from holdfast.errors import CannotDeserialize, ConfigurationError
from holdfast.model.world import RealWorld
from holdfast.serialize import PortableJSON
from holdfast.stores import tokens
from holdfast.stores.idempotency.claims import NO_NOTE, Claims, OnConflict, Verbs, claim_lost
from holdfast.stores.idempotency.entry import IN_PROGRESS, Claim, ClaimState, IdempotencyEntry, Kept, Result
from holdfast.stores.keys import checked_key
from holdfast.stores.moments import utc_text
from holdfast.stores.opened import Opened

if TYPE_CHECKING:
    from datetime import datetime

    from holdfast.model.workflow import Duration
    from holdfast.model.world import World

DEFAULT_TTL = 3600.0
DEFAULT_LEASE = 300.0
ABANDONED_MS = 86_400_000  # for so long a claim that has expired is left for its owner, or for whoever takes it over
AT_ONCE = 1000  # entries that one statement of a cleanup removes
_TOO_MUCH = 2**31  # for a status code, which is an integer in a database
_json = PortableJSON()


class IdempotencyStore(Opened, ABC):
    """Keys that are claimed by one worker at a time, and the results they led to.

    *ttl_seconds* is how long a result lives, *lease_seconds* how long a claim, unless a call says otherwise. *place*
    tells this store's keys from another's among the tokens that a task holds.

    A store that is *at_once* never waits for anything, so that any thread may run its coroutines without a loop.
    """

    at_once = False

    def __init__(
        self, place: str, *, ttl_seconds: Duration, lease_seconds: Duration, world: World | None = None
    ) -> None:
        self._place = place
        self._ttl = milliseconds(ttl_seconds, "ttl_seconds", least=SHORTEST_LEASE)
        self._lease = milliseconds(lease_seconds, "lease_seconds", least=SHORTEST_LEASE)
        self._world: World = world or RealWorld()

    async def get(self, key: str) -> IdempotencyEntry | None:
        """Return what is known of *key*; None if nothing is, or it has expired. A claim has the ``status_code`` 0."""
        kept = await self._read(checked_key(key, "idempotency key"))
        return None if kept is None else _entry(kept)

    async def set(
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
        key = checked_key(key, "idempotency key")
        result = self._result(response_data, status_code, headers, ttl_seconds)
        return await self._put(key, _checked_fingerprint(fingerprint), self._world.new_id(), result)

    async def claim(
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
        key = checked_key(key, "idempotency key")
        lease = (
            self._lease if lease_seconds is None else milliseconds(lease_seconds, "lease_seconds", least=SHORTEST_LEASE)
        )
        mine = _checked_token(token) if token is not None else self._new_token()
        mark, data = _checked_fingerprint(fingerprint), NO_NOTE if note is None else _json.serialize(note)
        kept = await self._claim(key, mark, mine, lease, data, fleeting=fleeting)
        faults.point("key.claimed")
        if kept.token == mine and kept.status_code == IN_PROGRESS:
            tokens.hold(self._item(key), mine)
            inherited = None if kept.response_data == NO_NOTE else _json.deserialize(kept.response_data)
            return Claim(key=key, state=ClaimState.WON, token=mine, note=inherited)
        return Claim(key=key, state=_lost_to(kept, fingerprint), entry=_entry(kept))

    async def try_claim(
        self, key: str, fingerprint: str, *, lease_seconds: Duration | None = None, token: str | None = None
    ) -> bool:
        """Take *key* if nobody has it; return whether it was taken. ``claim`` says more."""
        return (await self.claim(key, fingerprint, lease_seconds=lease_seconds, token=token)).won

    async def store_result(
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
        key = checked_key(key, "idempotency key")
        result = self._result(response_data, status_code, headers, ttl_seconds)
        holder = tokens.held(self._item(key), token)
        faults.point("key.before_result")
        stored = await self._finish(key, holder, holder or self._world.new_id(), result)
        faults.point("key.result_stored")
        if not stored:
            raise claim_lost(key)
        tokens.let_go(self._item(key))

    async def release_claim(self, key: str, *, token: str | None = None) -> bool:
        """Give the key back without a result; False, and nothing is changed, if the claim is not this caller's."""
        key = checked_key(key, "idempotency key")
        released = await self._release(key, tokens.held(self._item(key), token))
        if released or token is None:  # not before: who could not reach the store may try again
            tokens.let_go(self._item(key))
        return released

    async def extend_claim(self, key: str, *, lease_seconds: Duration | None = None, token: str | None = None) -> bool:
        """Have the claim last for *lease_seconds* from now; False if it is not, or no longer, this caller's."""
        key = checked_key(key, "idempotency key")
        lease = (
            self._lease if lease_seconds is None else milliseconds(lease_seconds, "lease_seconds", least=SHORTEST_LEASE)
        )
        holder = tokens.held(self._item(key), token)
        return holder is not None and await self._extend(key, holder, lease)

    async def cleanup(self, before: datetime | str | None = None) -> int:
        """Remove what has expired, some at a time, and return how much that was.

        With *before*, an aware time or its ISO-8601 text, only what expired by then. A claim that has expired is left
        for a day, in which its owner may still end it.
        """
        until = None if before is None else utc_text(before, "before")
        removed = 0
        while True:
            some = await self._sweep(until, AT_ONCE)
            removed += some
            if some < AT_ONCE:
                return removed

    @property
    def verbs(self) -> Verbs:
        """What ``Claims`` of this store are made of."""
        return Verbs(
            new_token=self._new_token,
            claim=self._claim,
            finish=self._finish,
            release=self._release,
            extend=self._extend,
        )

    def _new_token(self) -> str:
        """Return a text that no other claim has, of any process that shares the keys."""
        return self._world.new_id()

    def _item(self, key: str) -> tokens.Item:
        return ("idempotency", self._place, key)

    def _result(self, data: Any, status_code: int, headers: Mapping[str, Any] | None, ttl: Duration | None) -> Result:
        code = _checked_code(status_code)
        ttl_ms = self._ttl if ttl is None else milliseconds(ttl, "ttl_seconds", least=SHORTEST_LEASE)
        return _json.serialize(data), code, _json.serialize(_checked_headers(headers)), ttl_ms

    @abstractmethod
    async def _read(self, key: str) -> Kept | None:
        """Return what is kept under *key* and has not expired."""

    @abstractmethod
    async def _claim(self, key: str, fingerprint: str, token: str, lease_ms: int, note: str, *, fleeting: bool) -> Kept:
        """Keep a claim under *key* if what is kept has expired or is this token's claim; return what is kept then.

        What is returned has not expired. The *note* becomes the claim's data, unless the claim it replaces has the same
        fingerprint: then that one's note stays. When the caller is cancelled no claim is left behind. One that is
        *fleeting* need not outlive the machine.
        """

    @abstractmethod
    async def _finish(self, key: str, token: str | None, mark: str, result: Result) -> bool:
        """Make a result of the claim that *token* has, or, without one, of a claim that has expired; *mark* owns it.

        True as well if this very result is there already.
        """

    @abstractmethod
    async def _release(self, key: str, token: str | None) -> bool:
        """Remove the claim that *token* has, or, without one, a claim that has expired."""

    @abstractmethod
    async def _extend(self, key: str, token: str, lease_ms: int) -> bool:
        """Have the claim of *token* expire so much later than now."""

    @abstractmethod
    async def _put(self, key: str, fingerprint: str, mark: str, result: Result) -> bool:
        """Keep a result, owned by *mark*, if nothing is kept or what is has expired."""

    @abstractmethod
    async def _sweep(self, before: str | None, most: int) -> int:
        """Remove up to *most* entries that have expired, by *before* if it is given; return how many."""


def claims_of(
    store: IdempotencyStore,
    world: World,
    *,
    lease_seconds: Duration,
    ttl_seconds: Duration = DEFAULT_TTL,
    wait_seconds: Duration = 0,
    on_conflict: OnConflict = "reject",
) -> Claims:
    """Return how work is done once for each key of *store*; the settings are those of ``Claims``."""
    if not isinstance(store, IdempotencyStore):
        raise ConfigurationError(
            f"Keys are kept by an idempotency store, not by {type(store).__name__}. A StoreFactory has none without a "
            "database: name one, or make an InMemoryIdempotencyStore() for this process alone. One for threads has its "
            "async store as .store."
        )
    return Claims(
        store.verbs,
        world,
        ttl_ms=milliseconds(ttl_seconds, "ttl_seconds", least=SHORTEST_LEASE),
        lease_ms=milliseconds(lease_seconds, "lease_seconds", least=SHORTEST_LEASE),
        waits=checked_seconds(wait_seconds, "wait_seconds"),
        on_conflict=on_conflict,
    )


def _entry(kept: Kept) -> IdempotencyEntry:
    try:
        data = None if kept.status_code == IN_PROGRESS else _json.deserialize(kept.response_data)
        headers = _json.deserialize(kept.headers or "{}")
    except CannotDeserialize as error:
        raise CannotDeserialize(
            f"What is stored for the idempotency key {kept.key!r} is not what was written: {error} Delete it, or wait "
            f"until it expires at {kept.expires_at}."
        ) from error
    return {
        "idempotency_key": kept.key,
        "fingerprint": kept.fingerprint,
        "response_data": data,
        "status_code": kept.status_code,
        "headers": headers,
        "created_at": kept.created_at,
        "expires_at": kept.expires_at,
    }


def _lost_to(kept: Kept, fingerprint: str) -> ClaimState:
    if kept.fingerprint != fingerprint:
        return ClaimState.CONFLICT
    return ClaimState.IN_PROGRESS if kept.status_code == IN_PROGRESS else ClaimState.STORED


def _checked_headers(headers: Mapping[str, Any] | None) -> dict[str, Any]:
    if headers is None or isinstance(headers, Mapping):
        return dict(headers or {})
    raise TypeError(  # of pairs only the last of a name would be left
        f"The headers of a result are a dict, not {type(headers).__name__}: of several values of a name give a list."
    )


def _checked_fingerprint(fingerprint: str) -> str:
    return "" if fingerprint == "" else checked_key(fingerprint, "fingerprint")


def _checked_token(token: str) -> str:
    return checked_key(token, "token")


def _checked_code(status_code: Any) -> int:
    if isinstance(status_code, int) and not isinstance(status_code, bool) and IN_PROGRESS < status_code < _TOO_MUCH:
        return int(status_code)  # of a member of HTTPStatus too
    raise ValueError(
        f"The status code of a result is a whole number from 1 to {_TOO_MUCH - 1}, not {status_code!r}; "
        "0 is the mark of a claim in progress."
    )


__all__ = [
    "ABANDONED_MS",
    "AT_ONCE",
    "DEFAULT_LEASE",
    "DEFAULT_TTL",
    "IdempotencyStore",
    "claims_of",
    "milliseconds",
]
