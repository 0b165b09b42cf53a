"""A checkpoint saver for LangGraph: threads of agents in the database you already run.

    with HoldfastSaver.from_url("sqlite:///agents.db") as saver:
        graph = builder.compile(checkpointer=saver)

One object serves sync and async graphs, from any thread and any event loop. A put has returned when it is durable.
A value that several checkpoints have is kept beside them; puts of many tasks share a commit.
"""

from __future__ import annotations

import asyncio
import json
import random
from typing import TYPE_CHECKING, Any

try:
    from langgraph.checkpoint.base import (
        WRITES_IDX_MAP,
        BaseCheckpointSaver,
        ChannelVersions,
        Checkpoint,
        CheckpointMetadata,
        CheckpointTuple,
        DeltaChannelHistory,
        get_checkpoint_metadata,
    )
    from langgraph.checkpoint.serde.types import _DeltaSnapshot
except ImportError as error:
    from holdfast.errors import DriverMissing

    raise DriverMissing("The LangGraph saver needs LangGraph: pip install 'holdfast[langgraph]'.") from error

from holdfast.errors import ConfigurationError
from holdfast.integrations.langgraph_configs import config_of, name, named_place, names, span_of, where
from holdfast.integrations.langgraph_sides import SaverSides
from holdfast.integrations.langgraph_stored import Stored
from holdfast.stores.threads import Found, LargeValue, Place, Saved, Span, Walk, Write, incomplete

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Callable, Container, Iterator, Mapping, Sequence
    from typing import Self

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from holdfast.stores.threads import Threads

_SMALL = 2048  # bytes of a value that is kept in the checkpoint itself
_SHORT = 512  # letters of a text that is certainly small
_FIRST_ANCESTORS = 4  # read at once; more if the chain is longer
_PLAIN = (int, float, bool, type(None))
_decode = json.JSONDecoder().decode


class HoldfastSaver(BaseCheckpointSaver[str]):
    """LangGraph's checkpoints, their values and pending writes, on SQLite, PostgreSQL, MariaDB/MySQL or Redis.

    It opens when it is first used; ``close`` or a ``with`` block ends its connections. *serde* is LangGraph's
    serializer; what it cannot store is refused before anything is written.
    """

    def __init__(self, url: str | os.PathLike[str], *, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde)
        self._sides = SaverSides(url)
        self._stored = Stored()

    @classmethod
    def from_url(cls, url: str | os.PathLike[str], *, serde: SerializerProtocol | None = None) -> Self:
        """Return a saver for the database at *url*; its tables are made when it is first used."""
        return cls(url, serde=serde)

    def close(self) -> None:
        """End what sync calls have opened; it opens again when used."""
        self._sides.close()

    async def aclose(self) -> None:
        """End what was opened, by sync calls and on this loop."""
        await self._sides.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that *config* names, by default the newest of its thread, or None."""
        found = self._sides.find(*where(config))
        return None if found is None else self._tuple(found)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that *config* names, by default the newest of its thread, or None."""
        found = await self._sides.acall(lambda threads: threads.find(*where(config)))
        return None if found is None else self._tuple(found)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 -- LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield checkpoints, newest first; *filter* compares metadata by equality."""
        walk = _walk(config, filter, before, limit)
        while walk.more:
            yield from map(self._tuple, self._sides.listed(walk))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 -- LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield checkpoints, newest first; *filter* compares metadata by equality."""
        walk = _walk(config, filter, before, limit)
        while walk.more:
            for found in walk.taken(await self._sides.acall(walk.read)):
                yield self._tuple(found)

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint; return the config that names it, when it is durable."""
        saved, values = self._saved(config, checkpoint, metadata, new_versions)
        if not self._sides.put(saved, values):
            saved, values = self._saved(config, checkpoint, metadata, None)
            self._sides.put(saved, values)
        self._stored.add(saved.place, values)
        return config_of(saved.place)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint; return the config that names it, when it is durable."""
        saved, values = self._saved(config, checkpoint, metadata, new_versions)
        if not await self._sides.acall(lambda threads: threads.put(saved, values)):
            saved, values = self._saved(config, checkpoint, metadata, None)
            await self._sides.acall(lambda threads: threads.put(saved, values))
        self._stored.add(saved.place, values)
        return config_of(saved.place)

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task has written on top of a checkpoint; the same again changes nothing."""
        if rows := self._writes(writes, task_id, task_path):
            self._sides.put_writes(named_place(config), rows)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task has written on top of a checkpoint; the same again changes nothing."""
        if rows := self._writes(writes, task_id, task_path):
            await self._sides.acall(lambda threads: threads.put_writes(named_place(config), rows))

    def delete_thread(self, thread_id: str) -> None:
        """Delete everything of a thread."""
        self._sides.call(lambda threads: threads.delete_thread(name(thread_id, "thread_id")))

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete everything of a thread."""
        await self._sides.acall(lambda threads: threads.delete_thread(name(thread_id, "thread_id")))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints of runs with their writes, and the values nobody has any more."""
        self._sides.call(lambda threads: threads.delete_runs(names(run_ids, "run_id")))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints of runs with their writes, and the values nobody has any more."""
        await self._sides.acall(lambda threads: threads.delete_runs(names(run_ids, "run_id")))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy everything of a thread; what the target has already stays as it is."""
        source, target = names((source_thread_id, target_thread_id), "thread_id")
        self._sides.call(lambda threads: threads.copy_thread(source, target))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy everything of a thread; what the target has already stays as it is."""
        source, target = names((source_thread_id, target_thread_id), "thread_id")
        await self._sides.acall(lambda threads: threads.copy_thread(source, target))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keep of each namespace the newest checkpoint and what it cannot be read without; or ``"delete"`` all."""
        self._sides.call(lambda threads: _prune(threads, names(thread_ids, "thread_id"), strategy))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keep of each namespace the newest checkpoint and what it cannot be read without; or ``"delete"`` all."""
        await self._sides.acall(lambda threads: _prune(threads, names(thread_ids, "thread_id"), strategy))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return for each channel its changes since the nearest ancestor that has it whole, and that value."""
        chain = self._sides.call(lambda threads: _ancestors(threads, config, frozenset(channels)))
        return self._history(chain, channels)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return for each channel its changes since the nearest ancestor that has it whole, and that value."""
        chain = await self._sides.acall(lambda threads: _ancestors(threads, config, frozenset(channels)))
        return self._history(chain, channels)

    def get_next_version(self, current: str | None, channel: None) -> str:  # noqa: ARG002 -- LangGraph's signature
        """Return a version after *current* that no other branch of the thread has."""
        number = 0 if current is None else int(str(current).partition(".")[0])  # another saver's may be a number
        return f"{number + 1:032}.{random.getrandbits(64):016x}"

    def _saved(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new: ChannelVersions | None
    ) -> tuple[Saved, Sequence[LargeValue]]:
        """Return a checkpoint and those of its large values that may not be stored yet; all of them without *new*."""
        thread_id, checkpoint_ns, parent_id = where(config)
        place = Place(thread_id, checkpoint_ns, name(checkpoint["id"], "id of the checkpoint"))
        small: dict[str, Any] = {}
        large: dict[str, str] = {}
        fresh = self._parted(place, checkpoint, new, small, large)
        format_, data = self.serde.dumps_typed({**checkpoint, "channel_values": small})
        about = get_checkpoint_metadata(config, metadata)
        run_id = about.get("run_id")
        named = None if run_id is None else name(run_id, "run_id")
        return Saved(place, parent_id, named, format_, data, json.dumps(about), large), fresh

    def _parted(
        self,
        place: Place,
        checkpoint: Checkpoint,
        new: ChannelVersions | None,
        small: dict[str, Any],
        large: dict[str, str],
    ) -> Sequence[LargeValue]:
        """Put values into *small* and the versions of others into *large*; return what must be stored of those.

        A value that is *new* is kept in the checkpoint: whether the next one has it too is not known. Those of a
        channel that did not change once are kept beside.
        """
        versions = checkpoint["channel_versions"]
        fresh = []
        for channel, value in checkpoint["channel_values"].items():
            whole = isinstance(value, _DeltaSnapshot)
            changed = new is not None and channel in new
            stays = whole or not changed or self._stored.beside(place, channel)
            if not stays or _is_plain(value) or channel not in versions:
                small[channel] = value
                continue
            version = str(versions[channel])
            if new is None or changed or not self._stored.has(place, channel, version):
                format_, data = self.serde.dumps_typed(value)
                if len(data) <= _SMALL and not whole:
                    small[channel] = value
                    continue
                fresh.append(LargeValue(channel, version, format_, data))
            large[channel] = version
        return fresh

    def _writes(self, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str) -> Sequence[Write]:
        task_id, task_path = name(task_id, "task_id"), name(task_path, "task_path")
        return [
            Write(
                task_id,
                WRITES_IDX_MAP.get(channel, at),
                name(channel, "channel"),
                *self.serde.dumps_typed(value),
                task_path,
            )
            for at, (channel, value) in enumerate(writes)
        ]

    def _tuple(self, found: Found) -> CheckpointTuple:
        saved, load = found.saved, self.serde.loads_typed
        place = saved.place
        return CheckpointTuple(
            config_of(place),
            self._whole(found),
            _decode(saved.metadata),
            None if saved.parent_id is None else config_of((place.thread_id, place.checkpoint_ns, saved.parent_id)),
            [(write.task_id, write.channel, load((write.format, write.data))) for write in found.writes],
        )

    def _whole(self, found: Found, only: Container[str] | None = None) -> Checkpoint:
        """Return a checkpoint with its values; of the large ones *only* those, if some are named.

        Raises ``DamagedCheckpoint`` if one of them is gone: without it a graph would go on from another state.
        """
        if len(found.values) != len(found.saved.large):
            raise incomplete(found)
        checkpoint: Checkpoint = self.serde.loads_typed((found.saved.format, found.saved.data))
        for value in found.values:
            if only is None or value.channel in only:
                checkpoint["channel_values"][value.channel] = self.serde.loads_typed((value.format, value.data))
        return checkpoint

    def _history(self, chain: Sequence[Found], channels: Sequence[str]) -> Mapping[str, DeltaChannelHistory]:
        history: dict[str, DeltaChannelHistory] = {channel: {"writes": []} for channel in channels}
        open_ = set(channels)
        for found in chain:
            for write in reversed(found.writes):
                if write.channel in open_:
                    value = self.serde.loads_typed((write.format, write.data))
                    history[write.channel]["writes"].append((write.task_id, write.channel, value))
            values = self._whole(found, open_)["channel_values"]
            for channel in open_ & values.keys():
                history[channel]["seed"] = values[channel]
            open_ -= values.keys()
        for each in history.values():
            each["writes"].reverse()  # newest first until here
        return history


def _is_plain(value: Any) -> bool:
    return isinstance(value, _PLAIN) or (isinstance(value, str) and len(value) <= _SHORT)


def _walk(
    config: RunnableConfig | None, metadata: dict[str, Any] | None, before: RunnableConfig | None, limit: int | None
) -> Walk:
    if limit is not None and type(limit) is not int:
        raise TypeError(f"The limit of a list is a whole number, not {limit!r:.50}.")
    return Walk(span_of(config, before), _has(metadata) if metadata else None, limit)


def _has(wanted: dict[str, Any]) -> Callable[[Saved], bool]:
    """Return whether a checkpoint's metadata has all that is *wanted*."""

    def has(saved: Saved) -> bool:
        about = _decode(saved.metadata)
        return all(key in about and about[key] == value for key, value in wanted.items())

    return has


async def _prune(threads: Threads, thread_ids: Sequence[str], strategy: str) -> None:
    if strategy == "keep_latest":
        await threads.prune(thread_ids)
    elif strategy == "delete":
        await asyncio.gather(*(threads.delete_thread(thread_id) for thread_id in thread_ids))
    else:
        raise ConfigurationError(f'The strategy of prune is "keep_latest" or "delete", not {strategy!r}.')


async def _ancestors(threads: Threads, config: RunnableConfig, channels: frozenset[str]) -> list[Found]:
    """Return the ancestors of a checkpoint, nearest first, up to where all *channels* are there whole."""
    target = await threads.find(*where(config))
    chain: list[Found] = []
    if target is None or not channels:
        return chain
    parent, missing = target.saved.parent_id, set(channels)
    walk = Walk(Span(*target.saved.place[:2], before=target.saved.place.checkpoint_id), first=_FIRST_ANCESTORS)
    while walk.more and parent is not None and missing:
        for found in walk.taken(await walk.read(threads)):
            if parent is None or not missing or found.saved.place.checkpoint_id < parent:
                return chain  # whole, or the parent is gone
            if found.saved.place.checkpoint_id == parent:
                chain.append(found)
                parent, missing = found.saved.parent_id, missing - found.saved.large.keys()
    return chain


__all__ = ["HoldfastSaver"]
