"""Conversation threads in Redis, or on a Redis Cluster. Every change is one script.

A checkpoint's name in the indexes is its id, its thread and its namespace with NUL between them, the last two
percent-encoded: so the order of names is the order of ids, and each name says where its checkpoint is.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import msgspec

from holdfast.errors import Retryable
from holdfast.stores.redis import unmoved
from holdfast.stores.threads.facts import held, orphaned
from holdfast.stores.threads.pruning import Bone, bone, orphans, to_delete
from holdfast.stores.threads.reading import damaged
from holdfast.stores.threads.records import Found, LargeValue, Place, Saved, Span, Write, in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from holdfast.errors import DamagedCheckpoint
    from holdfast.stores.redis import RedisLink

PREFIX = "{holdfast:threads}:"

_LUA = Path(__file__).with_name("lua")
_PUT, _PUT_WRITES, _PAGE, _SKELETON, _DELETE, _DELETE_THREAD, _COPY_THREAD = (
    _LUA / f"{name}.lua" for name in ("put", "put_writes", "page", "skeleton", "delete", "delete_thread", "copy_thread")
)
_TRIES = 100
_VALUE, _PARENT = 1, 2  # what a checkpoint lacks that was not stored
_value = msgspec.msgpack.Decoder(tuple[str, bytes]).decode
_write = msgspec.msgpack.Decoder(tuple[str, int, str, str, bytes, str]).decode


class RedisThreads:
    """Checkpoints, large values and writes of threads under keys that begin with *prefix*.

    Its hash tag keeps all of them in one place of a cluster. Every call is atomic. Redis is as durable as it is set up
    to be: with ``appendfsync always`` what was put survives a crash.
    """

    def __init__(self, link: RedisLink, *, prefix: str = PREFIX) -> None:
        self._link = link
        self._prefix = prefix
        self._changes = f"{prefix}changes"
        self._sequence = f"{prefix}sequence"
        self._unmoved = unmoved(prefix)

    async def initialize(self) -> None:
        """Connect; a second call changes nothing."""
        await self._link.initialize()

    async def close(self) -> None:
        """End the connections."""
        await self._link.close()

    async def put(self, saved: Saved, values: Sequence[LargeValue]) -> bool:
        """Store a checkpoint and large values of it; False, and nothing is stored, if another one it has is gone."""
        thread, ns, _ = place = _encoded(saved.place)
        keys = [
            *(self._key("checkpoint", place), self._key("ns", (thread, ns)), self._key("thread", (thread,))),
            *(f"{self._prefix}all", self._key("values", (thread,)), self._changes, self._sequence),
            self._unmoved,
        ]
        large = "\n".join(_field(ns, channel, version) for channel, version in saved.large.items())
        run = quote(saved.run_id or "", safe="")
        new = [
            part
            for each in values
            for part in (_field(ns, each.channel, each.version), msgspec.msgpack.encode((each.format, each.data)))
        ]
        parent = (saved.place._replace(checkpoint_id=each[-1]) for each in held(saved, values)[1])
        args = [
            *(self._prefix, _name(saved.place), thread, saved.parent_id or "", run, saved.format, saved.data),
            *(saved.metadata, large, next((self._key("checkpoint", _encoded(each)) for each in parent), ""), *new),
        ]
        lacks = await self._link.run(_PUT, keys, args, again=True)
        if lacks == _PARENT:
            raise orphaned(saved)
        return bool(lacks != _VALUE)

    async def put_writes(self, place: Place, writes: Sequence[Write]) -> None:
        """Store what a task has written on top of a checkpoint."""
        encoded = _encoded(place)
        args: list[Any] = [_name(place)]
        for write in writes:
            args += [f"{write.idx}:{write.task_id}", write.idx, msgspec.msgpack.encode(tuple(write))]
        keys = [self._key("writes", encoded), self._key("written", encoded[:1])]
        await self._link.run(_PUT_WRITES, keys, args, again=True)

    async def find(self, thread_id: str, checkpoint_ns: str, checkpoint_id: str | None) -> Found | None:
        """Return a checkpoint, by default the newest, or None."""
        found = await self.page(Span(thread_id, checkpoint_ns, checkpoint_id), None, 1)
        return found[0] if found else None

    async def delete_thread(self, thread_id: str) -> None:
        """Delete everything of a thread."""
        args = [self._prefix, quote(thread_id, safe="")]
        await self._link.run(_DELETE_THREAD, [self._changes, self._unmoved], args, again=True)

    async def copy_thread(self, source: str, target: str) -> None:
        """Copy everything of a thread; what the target has already stays as it is."""
        args = [self._prefix, quote(source, safe=""), quote(target, safe="")]
        if name := await self._link.run(_COPY_THREAD, [self._changes, self._sequence, self._unmoved], args, again=True):
            raise _lost(_place(name))

    async def delete_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints that belong to runs, with their writes, and the values nobody has any more."""
        wanted = set(run_ids) - {""}

        def choose(bones: list[tuple[Bone, str]]) -> list[Place]:
            return [each.place for each, run in bones if run in wanted]

        if wanted:
            await self._delete((), sorted(wanted), choose)

    async def prune(self, thread_ids: Sequence[str]) -> None:
        """Delete all but the newest checkpoint of each namespace, and what that one cannot be read without."""
        if thread_ids:
            await self._delete(sorted(set(thread_ids)), (), lambda bones: to_delete(each for each, _ in bones))

    async def _delete(
        self, threads: Sequence[str], runs: Sequence[str], choose: Callable[[list[tuple[Bone, str]]], list[Place]]
    ) -> None:
        """Look, decide and delete; look again if somebody has put a checkpoint in between."""
        looked = [self._prefix, len(threads), *(quote(each, safe="") for each in (*threads, *runs))]
        for _ in range(_TRIES):
            skeleton = await self._link.look(_SKELETON, [self._changes, self._unmoved], looked)
            bones = [_bone(row) for _, _, rows in skeleton for row in rows]
            gone = choose(bones)
            alone = orphans((each for each, _ in bones), gone)
            if not gone:
                return
            args = [
                *(self._prefix, len(skeleton), *(part for thread, count, _ in skeleton for part in (thread, count))),
                *(len(gone), *map(_name, gone)),
                *(part for thread, *names in alone for part in (quote(thread, safe=""), _field(*names))),
            ]
            if await self._link.run(_DELETE, [self._changes, self._unmoved], args, again=True):
                return
        raise Retryable("The threads to clean up were written to all the time; try again when they are at rest.")

    async def page(self, span: Span, after: Place | None, most: int) -> list[Found]:
        """Return so many checkpoints of *span*, newest first, that come after *after*."""
        highest, lowest = "+", "-"
        if span.before is not None:
            highest = f"({span.before}\0"
        if span.checkpoint_id is not None:
            lowest = f"[{span.checkpoint_id}\0"
            highest = min(highest, f"({span.checkpoint_id}\1") if highest != "+" else f"({span.checkpoint_id}\1"
        if after is not None:
            highest = f"({_name(after)}"
        args = [self._prefix, highest, lowest, most]
        rows, values = await self._link.look(_PAGE, [self._index(span), self._unmoved], args)
        large = dict(zip(values[::2], values[1::2], strict=True))
        return [_found(row, large) for row in rows]

    def _index(self, span: Span) -> str:
        """Return the set in which all wanted ones are; a namespace is only ever asked for within its thread."""
        if span.thread_id is None:
            return f"{self._prefix}all"
        thread = quote(span.thread_id, safe="")
        if span.checkpoint_ns is None:
            return self._key("thread", (thread,))
        return self._key("ns", (thread, quote(span.checkpoint_ns, safe="")))

    def _key(self, kind: str, parts: Iterable[str]) -> str:
        return f"{self._prefix}{kind}:{':'.join(parts)}"


def _encoded(place: Place) -> tuple[str, str, str]:
    return quote(place.thread_id, safe=""), quote(place.checkpoint_ns, safe=""), place.checkpoint_id


def _name(place: Place) -> str:
    thread, ns, checkpoint_id = _encoded(place)
    return f"{checkpoint_id}\0{thread}\0{ns}"


def _place(name: bytes) -> Place:
    checkpoint_id, thread, ns = name.decode().rsplit("\0", 2)
    return Place(unquote(thread), unquote(ns), checkpoint_id)


def _field(*parts: str) -> str:
    """Return the name of a value: its namespace, channel and version."""
    return ":".join(quote(part, safe="") for part in parts)


def _value_name(thread: bytes, field: bytes) -> tuple[str, str, str, str]:
    ns, channel, version = field.decode().split(":")
    return unquote(thread.decode()), unquote(ns), unquote(channel), unquote(version)


def _large(names: bytes) -> dict[str, str]:
    return {
        unquote(channel): unquote(version) for _, channel, version in (n.split(":") for n in names.decode().split())
    }


def _lost(place: Place) -> DamagedCheckpoint:
    return damaged(place, "Redis has its name and nothing else, as after an eviction")


def _bone(row: Sequence[Any]) -> tuple[Bone, str]:
    name, parent, metadata, large, run = row
    if metadata is None:
        raise _lost(_place(name))
    return bone(_place(name), parent.decode() or None, metadata, _large(large)), unquote(run.decode())


def _found(row: Sequence[Any], values: dict[bytes, bytes | None]) -> Found:
    name, parent, format_, data, metadata, large, writes = row
    place = _place(name)
    if data is None:
        raise _lost(place)
    saved = Saved(place, parent.decode() or None, None, format_.decode(), data, metadata.decode(), _large(large))
    thread = quote(place.thread_id, safe="").encode()
    kept = []
    for field in large.split():
        value = values[b"%b %b" % (thread, field)]
        if value is not None:
            _, _, channel, version = _value_name(thread, field)
            kept.append(LargeValue(channel, version, *_value(value)))
    return Found(saved, tuple(kept), in_order([Write(*_write(each)) for each in writes]))


__all__ = ["PREFIX", "RedisThreads"]
