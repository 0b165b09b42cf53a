"""The way of a request with an idempotency key, the same in front of every kind of application.

::

    enter ──► Answer                 given before, or refused: the application is not called
      │
     Pass ──► leave(answer)          stored, or the key is free again; before the first byte of it is sent
         └──► abandon()              the application ended without an answer: the key is free again

Whoever has the pass ends it once; what happens after that, to the client, to the request or to the application, changes
nothing about the key. What becomes of it in each case: docs/reference/idempotency.md, "What becomes of a key".
"""

from __future__ import annotations

import logging
import os
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.core.backoff import backoff
from holdfast.db import ConnectionManager
from holdfast.errors import ClaimLost, ConfigurationError, DatabaseError, HoldfastError, PipelineError
from holdfast.model.world import RealWorld
from holdfast.stores.idempotency.database import DBIdempotencyStore
from holdfast.stores.idempotency.entry import ClaimState
from holdfast.stores.idempotency.extending import Extending
from holdfast.stores.idempotency.redis import RedisIdempotencyStore
from holdfast.stores.idempotency.store import IdempotencyStore
from holdfast.stores.redis import RedisLink
from holdfast.stores.sides import Sides
from holdfast.web.core import Answer, Request, Rules, store_key
from holdfast.web.fingerprint import RequestFingerprinter
from holdfast.web.patience import Patience

if TYPE_CHECKING:
    from holdfast.stores.idempotency.entry import Claim

logger = logging.getLogger("holdfast.idempotency")

_AWAY = (DatabaseError, PipelineError, OSError)
_UNREACHED = (HoldfastError, OSError)  # by one whose request is over: the store may have been closed as well


class Pass:
    """A request that may happen, under a claim of its key. It is used on the loop it came from."""

    def __init__(self, rules: Rules, store: IdempotencyStore, claim: Claim, patience: Patience) -> None:
        self._rules = rules
        self._store = store
        self._claim = claim
        self._patience = patience
        extend = partial(store.extend_claim, claim.key, lease_seconds=rules.lease_seconds, token=claim.token)
        self._extending = Extending(extend, rules.lease_seconds)
        self._ended = False

    async def leave(self, answer: Answer, *, keep: bool = True) -> None:
        """Store the application's answer, or free the key if answers of its status are not stored; never raises.

        The answer is the client's whatever happens to the store: what was done is done. Without *keep* its status
        is stored, and not its body. A second call changes nothing. If the request is cancelled meanwhile,
        ``CancelledError`` comes when the answer is stored. A store that is away is waited for a while.
        """
        if self._ended:
            return
        if not self._saves(answer.status):
            await self.abandon()
            return
        self._end()
        await self._patience.written(self._stored(answer, keep=keep))

    async def abandon(self) -> None:
        """Free the key; a second call, or one after ``leave``, changes nothing. Never raises, as ``leave``."""
        if self._ended:
            return
        self._end()
        await self._patience.written(self._released())

    def _saves(self, status: int) -> bool:
        try:
            return self._rules.saves(status)
        except Exception:
            logger.exception("The rule that says which answers are stored raised at %s; the answer is stored.", status)
            return True  # the request was carried out: without its answer a retry would have it done again

    async def _stored(self, answer: Answer, *, keep: bool) -> None:
        data, headers = self._rules.packed(answer)
        data = data if keep else None
        key, ttl = self._claim.key, self._rules.ttl_seconds
        try:
            await self._store.store_result(key, data, answer.status, headers, ttl_seconds=ttl, token=self._claim.token)
        except ClaimLost:
            logger.warning("The answer of a request came after its claim was lost, and is not stored.")
        except _UNREACHED as error:
            logger.error("The answer of a request could not be stored; a retry will carry it out again: %s", error)  # noqa: TRY400 -- the message says it all

    async def _released(self) -> None:
        await _release(self._store, self._claim)

    def _end(self) -> None:
        self._ended = True
        self._extending.end()


async def _release(store: IdempotencyStore, claim: Claim) -> None:
    try:
        if claim.won:
            await store.release_claim(claim.key, token=claim.token)
    except _UNREACHED as error:
        logger.warning("A key could not be released; it is free when its lease is over: %s", error)


class Gate:
    """What stands before an application: *rules*, and the store of the keys.

    The store is given, or named by the URL of a database or of Redis. One that was given is its owner's. One that is
    named is opened when first needed, for each loop that needs it: a test client may have a loop for each request.
    """

    def __init__(self, rules: Rules, store: IdempotencyStore | str | os.PathLike[str]) -> None:
        self.rules = rules
        self._fingerprints = RequestFingerprinter(rules.include_headers)
        self._given = store if isinstance(store, IdempotencyStore) else None
        if self._given is None:
            _Named(store)  # one that cannot be is refused here, and not at the first request
        self._named = Sides(partial(_opened, store), let_go=_Named.let_go)
        self._patience = Patience()
        self._world = RealWorld()

    async def enter(self, key: str, request: Request, body: bytes) -> Pass | Answer:
        """Claim the key of a request; return the pass with which it may happen, or the answer it gets without that."""
        headers = dict(request.headers) if self.rules.include_headers else None
        mark = self._fingerprints.create_fingerprint(request.method, request.path, request.query, body, headers)
        try:
            store = self._given if self._given is not None else (await self._named.here()).store
            claim = await self._claimed(store, store_key(key, request.client), mark)
        except _AWAY as error:
            logger.error("Idempotency keys cannot be checked: %s", error)  # noqa: TRY400 -- the message says it all
            return self.rules.unavailable()
        if claim.won:
            return Pass(self.rules, store, claim, self._patience)
        if claim.state is ClaimState.CONFLICT:
            return self.rules.conflict()
        entry = claim.result
        if entry is None:
            return self.rules.outstanding()
        return self.rules.unpacked(entry["status_code"], entry["response_data"], entry["headers"])

    async def close(self) -> None:
        """Close what the gate has opened for this loop, and what closed loops have left open; it may open again."""
        await self._named.aclose_here()
        self._named.close()

    async def _claimed(self, store: IdempotencyStore, key: str, mark: str) -> Claim:
        """Claim a key; while another is at the same request wait as long as the rules say."""
        claim = await self._asked(store, key, mark)
        if claim.state is not ClaimState.IN_PROGRESS or not self.rules.wait_seconds:
            return claim
        deadline, tries = self._world.monotonic() + self.rules.wait_seconds, 0
        while (left := deadline - self._world.monotonic()) > 0:
            tries += 1
            await self._world.sleep(min(left, backoff(tries, base=0.01, cap=0.5, draw=self._world.random.random())))
            claim = await self._asked(store, key, mark)
            if claim.state is not ClaimState.IN_PROGRESS:
                break
        return claim

    async def _asked(self, store: IdempotencyStore, key: str, mark: str) -> Claim:
        # Nobody is left to mind the claim of a request if the whole machine goes down: it need not be on the disk.
        claiming = store.claim(key, mark, lease_seconds=self.rules.lease_seconds, fleeting=True)
        return await (claiming if store.at_once else self._patience.asked(claiming, partial(_release, store)))


class _Named:
    """A store that is named by the URL of a database or of Redis, and what it stands on."""

    def __init__(self, url: Any) -> None:
        if not isinstance(url, str | os.PathLike):
            raise ConfigurationError(
                "The store of a middleware is an idempotency store, a SyncIdempotencyStore for WSGI and Django, or the "
                f"URL of a database or of Redis, not a {type(url).__name__}."
            )
        self._way: ConnectionManager | RedisLink
        self.store: IdempotencyStore
        if isinstance(url, str) and url.startswith(("redis:", "rediss:", "redis+cluster:", "rediss+cluster:")):
            self._way = RedisLink(url)
            self.store = RedisIdempotencyStore(self._way)
        else:
            self._way = ConnectionManager(url)
            self.store = DBIdempotencyStore(self._way)

    async def close(self) -> None:
        """Finish what is being written, and end the connections."""
        await self.store.close()
        await self._way.close()

    def let_go(self) -> None:
        """End what did not end with the loop, which was closed."""
        if isinstance(self._way, ConnectionManager):
            self._way.let_go()


async def _opened(url: Any) -> _Named:
    named = _Named(url)
    try:
        await named.store.initialize()
    except BaseException:
        await named.close()
        raise
    return named


__all__ = ["Gate", "Pass"]
