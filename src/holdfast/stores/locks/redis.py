"""``RedisLockStore``: the same locks in Redis."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.stores.cancels import to_the_end
from holdfast.stores.keys import checked_key
from holdfast.stores.locks.lease import Held, Lease, lease_of
from holdfast.stores.locks.store import DistributedLock
from holdfast.stores.redis import tagged
from holdfast.stores.ways import check_link

if TYPE_CHECKING:
    from holdfast.model.world import World
    from holdfast.stores.redis import RedisLink

_SCRIPT = Path(__file__).with_name("lua") / "locks.lua"


class RedisLockStore(DistributedLock):
    """Locks in Redis, shared by every process that uses the server and *prefix*; times are the server's.

    *link* is the caller's, and stays open. A server that loses what it acknowledged, with its last second or in a
    failover, loses locks with it, and tokens: use a database where that must not be.
    """

    def __init__(self, link: RedisLink, *, prefix: str = "holdfast:locks", world: World | None = None) -> None:
        check_link(self, link)
        super().__init__(world=world)
        self._link = link
        self._prefix = tagged(prefix)

    async def initialize(self) -> None:
        await self._link.initialize()

    async def get(self, key: str) -> Lease | None:
        found = await self._link.look(_SCRIPT, [f"{self._prefix}:{checked_key(key, 'key of a lock')}"], ["get"])
        return None if found is None else lease_of(key, found[0].decode(), found[1], found[2])

    async def _acquire(self, key: str, owner: str, claim_key: str, ttl_ms: int) -> Lease | Held:
        # The caller sees to it if it is cancelled meanwhile, by its count of cancellations.
        is_acquired, *rest = await to_the_end(self._run(key, "acquire", owner, claim_key, ttl_ms))
        return lease_of(key, owner, *rest) if is_acquired else Held(rest[0] / 1000)

    async def _release(self, lease: Lease, key: str) -> bool:
        return bool(await self._run(lease.key, "release", lease.owner, lease.token, key))

    async def _extend(self, lease: Lease, ttl_ms: int) -> bool:
        return bool(await self._run(lease.key, "extend", lease.owner, lease.token, ttl_ms))

    async def _run(self, key: str, verb: str, *args: Any) -> Any:
        """Run a verb, again after a lost reply: a write is recognised by the key that it carries."""
        return await self._link.run(_SCRIPT, [f"{self._prefix}:{key}"], [verb, *args], again=True)


__all__ = ["RedisLockStore"]
