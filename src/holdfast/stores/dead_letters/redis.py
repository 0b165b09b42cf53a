"""Failed operations in Redis: records as JSON, sorted sets as indexes, counts in a hash; every write is one script.

A change reads, decides here, and writes if the last change is still the one that was read. What rests on the standing
alone is decided for a record that nobody has changed yet, before it is read, and written if it is one. A script that
has run answers the same when it is run again under the same key, so that a lost reply costs a second try and nothing
else.
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
from holdfast.stores.dead_letters.remembered import Remembered, ServerClock
from holdfast.stores.dead_letters.repository import DEFAULT_LEASE, AsyncFailedOperationRepository
from holdfast.stores.dead_letters.shelf import Gone, Wanted
from holdfast.stores.redis import tagged, unmoved
from holdfast.stores.ways import check_link

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.model.workflow import Duration
    from holdfast.stores.dead_letters.shelf import Decide, Summarise, Tally
    from holdfast.stores.redis import RedisLink

_LUA = Path(__file__).with_name("lua")
_CHUNK = 200
_DONE = ord("1")
_READS = frozenset({"hash", "number", "page", "read", "summaries"})


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
        self._clock = ServerClock()

    async def initialize(self) -> None:
        """Reach the server; a second call changes nothing."""
        await self._link.initialize()

    async def close(self) -> None:
        """Nothing is held. The link stays open."""

    async def add(self, fresh: FailedOperationData) -> FailedOperationData:
        key = records.UNCHANGED if records.is_as_most(fresh) else self._world.new_id()
        faults.point("dead_letters.before_commit")
        addition = records.addition(fresh, key)
        made = int(await self._run("add", *addition)) // 1000
        faults.point("dead_letters.changed")
        self._clock.hear(made)
        now = records.server_time(made)
        self._remembered.note(fresh.id, addition[records.ADDED], now, key)
        due = now if fresh.retry_delay is not None and fresh.status == "pending" else None
        return replace(fresh, created_at=now, updated_at=now, next_retry_at=due)

    async def get(self, id: str) -> FailedOperationData | None:  # noqa: A002 -- the documented word
        if not _may_be_there(id):
            return None
        _, found, _ = self._heard(await self._run("read", id))
        return found[0] if found else None

    async def change(
        self,
        id: str,  # noqa: A002
        decide: Decide,
        *,
        whole: bool = True,  # noqa: ARG002 -- a record is one value
        on_standing: bool = False,
    ) -> FailedOperationData | None:
        changing = self._changed(id, decide, on_standing=on_standing)
        return await (changing if self.at_once else to_the_end(changing))

    async def _changed(
        self,
        id: str,  # noqa: A002
        decide: Decide,
        *,
        on_standing: bool,
    ) -> FailedOperationData | None:
        """Change a record without reading it first, if it was last written here, lately, or nobody has changed it yet.

        Read it if that is not so.
        """
        known, near, read = self._remembered.get(id), self._clock.now_ms(), None
        if near is not None and _may_be_there(id) and (known is not None or on_standing):
            before = records.unread(id) if known is None else known.record()
            after = decide(before, records.server_time(near))
            if after is None or isinstance(after, Gone):
                pass
            elif known is None:
                changed, read = await self._put_over(before, after, near)
                if read is None:
                    return changed
            elif await self._put_known(before, after, known.key, near):
                return after
        some = await self._changed_all([id], decide, read)
        return some[0] if some else None

    async def change_all(
        self,
        ids: Sequence[str],
        decide: Decide,
        *,
        whole: bool = True,  # noqa: ARG002 -- a record is one value
    ) -> list[FailedOperationData]:
        return await self._changed_all(ids, decide)

    async def _changed_all(
        self, ids: Sequence[str], decide: Decide, read: records.Read | None = None
    ) -> list[FailedOperationData]:
        """Change records; *read* is what was just read of them, if that is so."""
        wanted = [id for id in ids if _may_be_there(id)]  # noqa: A001
        while True:
            now, found, keys = read or self._heard(await self._run("read", *wanted))
            read = None
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
        if script in _READS:
            return await self._link.look(_script(script), self._keys, args)
        return await self._link.run(_script(script), self._keys, args, again=True)

    async def _put(
        self,
        changes: Sequence[tuple[FailedOperationData, FailedOperationData | Gone]],
        keys: Mapping[str, str],
        summaries: Sequence[DLQCompressedEntry] = (),
        *,
        whole: bool,
    ) -> list[bool]:
        """Write what was decided; return which of the records were written.

        *keys* name, by id, the change that each record stands on.
        """
        key = self._world.new_id()
        writes = [
            records.change(before, None if isinstance(after, Gone) else after, keys[before.id])
            for before, after in changes
        ]
        parts = [part for write in writes for part in write]
        summed = [part for entry in summaries for part in records.summary_arguments(entry, entry.last_seen)]
        how = "all" if whole else "each"
        verdicts, now = (await self._write(key, how, "", len(writes), *parts, len(summaries), *summed)).split(b" ")
        self._clock.hear(int(now))
        written = [verdict == _DONE for verdict in verdicts]
        for (before, _), write, done in zip(changes, writes, written, strict=True):
            if done and before.created_at is not None:
                self._remembered.note(before.id, write[records.WRITTEN], before.created_at, key)
        return written

    async def _put_known(
        self, before: FailedOperationData, after: FailedOperationData, stands_on: str, near: int
    ) -> bool:
        """Write what was decided about a record that was last changed here, by the change *stands_on*.

        *near* is what was taken for the server's time.
        """
        key, write = self._world.new_id(), records.change(before, after, stands_on)
        verdict, now = (await self._write(key, "known", near, 1, *write, 0)).split(b" ")
        self._clock.hear(int(now))
        written = verdict == b"1"
        if written and before.created_at is not None:
            self._remembered.note(before.id, write[records.WRITTEN], before.created_at, key)
        return written

    async def _put_over(
        self, before: FailedOperationData, after: FailedOperationData, near: int
    ) -> tuple[FailedOperationData | None, records.Read | None]:
        """Write what was decided about a record that was not read; if it does not fit the one that is there, read that.

        Return the record as written, or what was read; neither, if it was written and has been deleted since.
        """
        key, write = self._world.new_id(), records.change_over(before, after)
        verdict, now, *there = (await self._write(key, "over", near, 1, *write, 0)).split(b" ", 2)
        self._clock.hear(int(now))
        if verdict != b"1":
            return None, records.read([now, *there])
        over = records.read_over(there[0], write[records.WRITTEN]) if there else None
        if over is None:
            return None, None
        record, body, made = over
        self._remembered.note(record.id, body, made, key)
        return record, None

    async def _write(self, *args: Any) -> bytes:
        faults.point("dead_letters.before_commit")
        reply: bytes = await self._run("write", *args)
        faults.point("dead_letters.changed")
        return reply

    def _heard(self, replies: Sequence[bytes]) -> records.Read:
        self._clock.hear(int(replies[0]))
        return records.read(replies)

    async def _found(self, wanted: Wanted) -> records.Read:
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
            now, met, keys = self._heard(replies)
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
