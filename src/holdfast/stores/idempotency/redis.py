"""The idempotency store in Redis: a hash a key, and a sorted set of when each goes."""

from __future__ import annotations

import asyncio
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.core.moments import milliseconds_of, moment_of
from holdfast.stores.cancels import cancels, to_the_end
from holdfast.stores.idempotency.entry import Kept, KeptRow, Result
from holdfast.stores.idempotency.store import ABANDONED_MS, DEFAULT_LEASE, DEFAULT_TTL, IdempotencyStore
from holdfast.stores.redis import tagged
from holdfast.stores.ways import check_link

if TYPE_CHECKING:
    from holdfast.model.workflow import Duration
    from holdfast.model.world import World
    from holdfast.stores.redis import RedisLink

_SCRIPTS = Path(__file__).with_name("lua")


class RedisIdempotencyStore(IdempotencyStore):
    """Idempotency keys in Redis, shared by every process that uses the server and *prefix*; times are the server's.

    *link* is the caller's, and stays open. What Redis acknowledged it may lose with its last second, unless it was
    told to sync every write. It removes by itself what has expired.
    """

    def __init__(
        self,
        link: RedisLink,
        *,
        prefix: str = "holdfast:idempotency",
        ttl_seconds: Duration = DEFAULT_TTL,
        lease_seconds: Duration = DEFAULT_LEASE,
        world: World | None = None,
    ) -> None:
        check_link(self, link)
        super().__init__(
            f"redis {link.address} {prefix}", ttl_seconds=ttl_seconds, lease_seconds=lease_seconds, world=world
        )
        self._link = link
        self._prefix = tagged(prefix)

    async def initialize(self) -> None:
        """Reach the server; a second call changes nothing."""
        await self._link.initialize()

    async def _read(self, key: str) -> Kept | None:
        row = await self._link.look(_SCRIPTS / "read.lua", [f"{self._prefix}:key:{key}"], [key])
        return None if row is None else _kept(key, row)

    async def _claim(
        self,
        key: str,
        fingerprint: str,
        token: str,
        lease_ms: int,
        note: str,
        *,
        fleeting: bool,  # noqa: ARG002 -- the server outlives the worker
    ) -> Kept:
        # Carried to its end: whether a script that nobody waits for any more has run cannot be known.
        before = cancels()
        kept = _kept(key, await to_the_end(self._run("claim", key, fingerprint, token, lease_ms, note, ABANDONED_MS)))
        if cancels() > before:
            if kept.token == token:
                await to_the_end(self._release(key, token))
            raise asyncio.CancelledError
        return kept

    async def _finish(self, key: str, token: str | None, mark: str, result: Result) -> bool:
        data, status_code, headers, ttl_ms = result
        return bool(await self._run("finish", key, token or "", mark, data, status_code, headers, ttl_ms))

    async def _release(self, key: str, token: str | None) -> bool:
        return bool(await self._run("release", key, token or ""))

    async def _extend(self, key: str, token: str, lease_ms: int) -> bool:
        return bool(await self._run("extend", key, token, lease_ms, ABANDONED_MS))

    async def _put(self, key: str, fingerprint: str, mark: str, result: Result) -> bool:
        data, status_code, headers, ttl_ms = result
        return bool(await self._run("put", key, fingerprint, mark, data, status_code, headers, ttl_ms))

    async def _sweep(self, before: str | None, most: int) -> int:
        until = "" if before is None else _milliseconds(before)
        keys = [f"{self._prefix}:expiry", f"{self._prefix}:key:"]
        return int(await self._link.run(_SCRIPTS / "sweep.lua", keys, [until, most, ABANDONED_MS], again=True))

    async def _run(self, script: str, key: str, *args: Any) -> Any:
        keys = [f"{self._prefix}:key:{key}", f"{self._prefix}:expiry"]
        return await self._link.run(_SCRIPTS / f"{script}.lua", keys, [key, *args], again=True)


def _kept(key: str, row: list[Any]) -> Kept:
    fingerprint, data, status_code, headers, created, expires, token = (each.decode() for each in row)
    return KeptRow(key, fingerprint, data, int(status_code), headers, _text(created), _text(expires), token)


def _text(milliseconds: str) -> str:
    return moment_of(int(milliseconds)).isoformat(timespec="microseconds")


def _milliseconds(text: str) -> int:
    return milliseconds_of(datetime.fromisoformat(text))


__all__ = ["RedisIdempotencyStore"]
