"""Failed operations in Redis: records as JSON, sorted sets as indexes, counts in a hash; every write is one script.

A change reads, decides here, and writes if the last change is still the one that was read. A script that has run
answers the same when it is run again under the same key, so that a lost reply costs a second try and nothing else.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from holdfast import faults
from holdfast.core.dead_letters import summary_may_become
from holdfast.core.texts import is_kept
from holdfast.model.dead_letter import CompressedStatus, DLQCompressedEntry, FailedOperationData
from holdfast.model.world import RealWorld, World
from holdfast.stores.cancels import to_the_end
from holdfast.stores.dead_letters import redis_records as records
from holdfast.stores.dead_letters.redis_walk import fits, is_behind, is_exact, walk_to
from holdfast.stores.dead_letters.remembered import Remembered
from holdfast.stores.dead_letters.repository import DEFAULT_LEASE, AsyncFailedOperationRepository
from holdfast.stores.dead_letters.shelf import Gone, Wanted
from holdfast.stores.redis import tagged, unmoved
from holdfast.stores.ways import check_link

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from holdfast.model.workflow import Duration
    from holdfast.stores.dead_letters.shelf import Decide, Summarise, Tally
    from holdfast.stores.redis import RedisLink

_LUA = Path(__file__).with_name("lua")
_CHUNK = 200


class RedisShelf:
    """Dead letters in Redis. Times are the server's, in milliseconds; keys have one hash tag, *prefix*."""

    def __init__(self, link: RedisLink, *, prefix: str = "holdfast:dlq", world: World | None = None) -> None:
        self._link = link
        self._base = f"{tagged(prefix)}:"
        self._keys = [self._base, unmoved(self._base)]
        self._world = world or RealWorld()
        self.place = f"redis {link.address} {prefix}"
        self.at_once = link.blocks
        self._remembered = Remembered()

    async def initialize(self) -> None:
        """Reach the server; a second call changes nothing."""
        await self._link.initialize()

    async def close(self) -> None:
        """Nothing is held. The link stays open."""

    async def add(self, fresh: FailedOperationData) -> FailedOperationData:
        key = self._world.new_id()
        faults.point("dead_letters.before_commit")
        addition = records.addition(fresh, key)
        now = records.moment(await self._run("add", *addition))
        faults.point("dead_letters.changed")
        self._remembered.note(fresh.id, addition[records.ADDED], now, key, now)
        due = now if fresh.retry_delay is not None and fresh.status == "pending" else None
        return replace(fresh, created_at=now, updated_at=now, next_retry_at=due)

    async def get(self, id: str) -> FailedOperationData | None:  # noqa: A002 -- the documented word
        if not _may_be_there(id):
            return None
        _, found, _ = records.read(await self._run("read", id))
        return found[0] if found else None

    async def change(
        self,
        id: str,  # noqa: A002
        decide: Decide,
        *,
        whole: bool = True,  # noqa: ARG002 -- a record is one value
    ) -> FailedOperationData | None:
        changing = self._changed(id, decide)
        changed = await (changing if self.at_once else to_the_end(changing))
        return changed[0] if changed else None

    async def _changed(self, id: str, decide: Decide) -> list[FailedOperationData]:  # noqa: A002
        """Change a record without reading it first, if it was last written here, lately; read it if that is over."""
        known = self._remembered.get(id)
        if known is not None:
            before, now = known.record(), known.now()
            after = decide(before, now)
            if after is not None and not isinstance(after, Gone):
                written = await self._put([(before, after)], {id: known.key}, whole=True, near=now)
                if all(written):
                    return [after]
        return await self.change_all([id], decide)

    async def change_all(
        self,
        ids: Sequence[str],
        decide: Decide,
        *,
        whole: bool = True,  # noqa: ARG002 -- a record is one value
    ) -> list[FailedOperationData]:
        wanted = [id for id in ids if _may_be_there(id)]  # noqa: A001
        while True:
            now, found, keys = records.read(await self._run("read", *wanted))
            decided = [(before, decide(before, now)) for before in found]
            changes = [(before, after) for before, after in decided if after is not None]
            if not changes or all(await self._put(changes, keys, whole=True)):
                return [before if isinstance(after, Gone) else after for before, after in changes]

    async def sweep(
        self, wanted: Wanted, decide: Decide, summarise: Summarise | None = None
    ) -> list[FailedOperationData]:
        while True:
            now, found, keys = await self._found(wanted)
            decided = [(before, decide(before, now)) for before in found]
            changes = [(before, after) for before, after in decided if after is not None]
            summaries = [] if summarise is None or not changes else summarise([before for before, _ in changes], now)
            whole = summarise is not None
            written = await self._put(changes, keys, summaries, whole=whole) if changes else []
            if any(written) or not changes:
                return [
                    before if isinstance(after, Gone) else after
                    for (before, after), done in zip(changes, written, strict=True)
                    if done
                ]

    async def find(self, wanted: Wanted) -> list[FailedOperationData]:
        return (await self._found(wanted))[1]

    async def count(self, wanted: Wanted) -> int:
        walk = walk_to(wanted)
        return int(await self._run("number", walk.name, walk.low, walk.high, *walk.statuses))

    async def tally(self) -> Tally:
        return records.tally(await self._run("hash", "counts"))

    async def add_summary(self, entry: DLQCompressedEntry) -> bool:
        compressed = "" if entry.compressed_at is None else records.score(entry.compressed_at)
        return bool(
            await self._run(
                "summary_store", self._world.new_id(), entry.id, entry.domain, entry.status, entry.count, compressed,
                *records.summary_fields(entry),
            )
        )  # fmt: skip

    async def summaries(self, domain: str | None, status: str | None, limit: int) -> list[DLQCompressedEntry]:
        index = "sums" if domain is None else "sums:" + domain
        found: dict[str, DLQCompressedEntry] = {}  # one that comes in front meanwhile has the last met once more
        offset = 0
        while len(found) < limit and (some := await self._run("summaries", index, offset, _CHUNK)):
            offset += len(some)
            entries = (records.summary(id, fields) for id, fields in some if fields)  # noqa: A001
            found |= {entry.id: entry for entry in entries if status in {None, entry.status}}
        return list(found.values())[:limit]

    async def summary_totals(self) -> Mapping[str, tuple[int, int]]:
        replies = await self._run("hash", "totals")
        has = {name.decode(): int(number) for name, number in zip(replies[::2], replies[1::2], strict=True)}
        return {status: (has.get(status, 0), has.get(f"{status}:items", 0)) for status in CompressedStatus}

    async def move_summary(self, id: str, new_status: str) -> bool:  # noqa: A002
        if not _may_be_there(id):
            return False
        sources = [status for status in CompressedStatus if summary_may_become(status, new_status)]
        return bool(await self._run("summary_move", self._world.new_id(), id, new_status, *sources))

    async def _run(self, script: str, *args: Any) -> Any:
        """Run a script that may be run twice: it reads, or knows the key of the call."""
        return await self._link.run(_script(script), self._keys, args, again=True)

    async def _write(
        self,
        key: str,
        writes: Sequence[Sequence[Any]],
        summaries: Sequence[Sequence[Any]] = (),
        *,
        whole: bool,
        near: datetime | None = None,
    ) -> tuple[list[bool], datetime]:
        """Return which of the records were written, and the server's time. *near* is what is taken for that time."""
        flat = [part for each in writes for part in each]
        summed = [part for each in summaries for part in each]
        faults.point("dead_letters.before_commit")
        time = "" if near is None else int(records.score(near)) // 1000
        reply = await self._run("write", key, int(whole), time, len(writes), *flat, len(summaries), *summed)
        faults.point("dead_letters.changed")
        verdicts, now = reply.decode().split(" ")
        return [verdict == "1" for verdict in verdicts], records.moment(int(now) * 1000)

    async def _put(
        self,
        changes: Sequence[tuple[FailedOperationData, FailedOperationData | Gone]],
        keys: Mapping[str, str],
        summaries: Sequence[DLQCompressedEntry] = (),
        *,
        whole: bool,
        near: datetime | None = None,
    ) -> list[bool]:
        """Write what was decided; *keys* name, by id, the change that each record stands on. *near* is as there."""
        key = self._world.new_id()
        writes = [
            records.change(before, None if isinstance(after, Gone) else after, keys[before.id])
            for before, after in changes
        ]
        summed = [records.summary_arguments(entry, entry.last_seen) for entry in summaries]
        written, at = await self._write(key, writes, summed, whole=whole, near=near)
        for (before, _), write, done in zip(changes, writes, written, strict=True):
            if done and before.created_at is not None:
                self._remembered.note(before.id, write[records.WRITTEN], before.created_at, key, at)
        return written

    async def _found(self, wanted: Wanted) -> tuple[datetime, list[FailedOperationData], dict[str, str]]:
        """Walk an index, some records at a time, until enough of them fit; return as ``records.read`` does.

        It goes on behind the place of the last record, and does not count: others come and go meanwhile.
        """
        walk, last, exact = walk_to(wanted), wanted.beyond, is_exact(wanted)
        passed, skipped = (wanted.offset, 0) if exact else (0, wanted.offset)
        some = min(_CHUNK, wanted.limit) if exact else _CHUNK
        found: list[FailedOperationData] = []
        known: dict[str, str] = {}
        while True:
            newest = int(wanted.newest)
            replies = await self._run("page", walk.name, newest, walk.low, walk.high, passed, some, *walk.statuses)
            now, met, keys = records.read(replies)
            known |= keys
            fresh = [record for record in met if is_behind(walk.place(record), last, newest=wanted.newest)]
            found += [record for record in fresh if fits(wanted, record)]
            if len(replies) <= some or len(found) >= wanted.limit + skipped:
                return now, found[skipped : skipped + wanted.limit], known
            if fresh:
                last, passed = walk.place(fresh[-1]), 0
                walk = walk.behind(last[0], newest=wanted.newest)
            else:  # so many have one and the same time
                passed += some
            some = _CHUNK


@cache
def _script(name: str) -> Path:
    return _LUA / f"{name}.lua"


def _may_be_there(id: Any) -> bool:  # noqa: A002
    return isinstance(id, str) and is_kept(id)


class AsyncRedisDLQRepository(AsyncFailedOperationRepository):
    """Failed operations in Redis, shared by every process that uses the server.

    *link* is the caller's, and stays open. *prefix* is the hash tag of all keys: repositories with different ones do
    not see each other. Times are the server's.
    """

    def __init__(
        self,
        link: RedisLink,
        *,
        prefix: str = "holdfast:dlq",
        lease: Duration = DEFAULT_LEASE,
        world: World | None = None,
    ) -> None:
        check_link(self, link)
        super().__init__(RedisShelf(link, prefix=prefix, world=world), lease=lease, world=world)


__all__ = ["AsyncRedisDLQRepository", "RedisShelf"]
