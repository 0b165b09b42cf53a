"""Reading streams: iterators of either colour, inside and outside of workflows.

An iterator reads ahead, a chunk at a time. In a workflow every item it gives is a recorded operation, the end too, so
that a replay is given the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from holdfast.core.durations import patience
from holdfast.core.numbers import MOST_BITS, count
from holdfast.errors import ConfigurationError
from holdfast.workflows.running.ids import sought_id
from holdfast.workflows.streams.entries import RESET, check_key

if TYPE_CHECKING:
    from holdfast.model.workflow import Duration
    from holdfast.workflows.payloads import Codec
    from holdfast.workflows.streams.feed import Chunk

T = TypeVar("T")

READ_STREAM = "holdfast.read_stream"


@dataclass(frozen=True, slots=True)
class StreamReset:
    """Says that an attempt of a step, which wrote live, or a try of the workflow has failed: what it wrote is void.

    That is everything the step, or what is tried again, wrote to the stream from *offset* on, up to here.
    """

    offset: int


@dataclass(frozen=True, slots=True)
class Item:
    """What a reader gives next, in the form that is recorded; an end has no *value*.

    A value without *serialization* is the mark of a reset.
    """

    next_offset: int
    value: str | None
    serialization: str | None


class Reading(NamedTuple):
    """What is read, and how: the stream of a run from an offset on."""

    workflow_id: str
    stream: str
    offset: int
    follow: bool
    resets: bool
    patience: float | None

    @classmethod
    def of(
        cls, workflow_id: str, stream: str, offset: int, timeout: Duration | None, *, follow: bool, resets: bool
    ) -> Reading:
        """Return what was asked for; refuse what cannot be read."""
        check_key(stream)
        try:
            count(offset, "The offset of a stream", most=MOST_BITS)
        except ValueError as error:
            raise ConfigurationError(str(error)) from None
        return cls(sought_id(workflow_id), stream, offset, follow, resets, patience(timeout))


class Cursor:
    """Where a reader stands: what it has read ahead, and what it gives next."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.offset = reading.offset
        self._ahead: deque[Item] = deque()
        self._ahead_offset = reading.offset
        self._at_end = False

    def take(self) -> Item | None:
        """Return what is next of what was read ahead; None if more must be read first."""
        if self._ahead:
            return self._ahead.popleft()
        return Item(self._ahead_offset, None, None) if self._at_end else None

    def feed(self, chunk: Chunk) -> None:
        """Take in what was read from ``wanted`` on."""
        self._ahead_offset = chunk.next_offset
        self._at_end = chunk.ended
        for row in chunk.rows:
            if row.serialization is not None or (self.reading.resets and row.value.startswith(RESET)):
                self._ahead.append(Item(row.offset + 1, row.value, row.serialization))

    def wanted(self) -> int:
        """Return the offset to read from."""
        return max(self._ahead_offset, self.offset)

    def passed(self, item: Item) -> None:
        """Stand behind *item*, which was given; it may have come from the record."""
        self.offset = item.next_offset


def delivered(item: Item, codec: Codec) -> Any:
    """Return what the user sees of *item*, which is not the end."""
    if item.serialization is None:
        return StreamReset(int((item.value or "").removeprefix(RESET)))
    return codec.load(item.value, item.serialization)


class StreamReader(Iterator[T], Generic[T]):
    """The values of a stream, as they come. For one thread at a time.

    ``offset`` is where to go on: behind the last value that was given.
    """

    def __init__(self, cursor: Cursor, codec: Codec, step: Callable[[Cursor], Item]) -> None:
        self._cursor = cursor
        self._codec = codec
        self._step = step

    @property
    def offset(self) -> int:
        """The offset behind the last value that was given: a reader that begins there misses and repeats nothing."""
        return self._cursor.offset

    def __iter__(self) -> StreamReader[T]:
        return self

    def __next__(self) -> T:
        item = self._step(self._cursor)
        self._cursor.passed(item)
        if item.value is None:
            raise StopIteration
        value: T = delivered(item, self._codec)
        return value


class AsyncStreamReader(AsyncIterator[T], Generic[T]):
    """The values of a stream, as they come. For one task at a time.

    ``offset`` is where to go on: behind the last value that was given.
    """

    def __init__(self, cursor: Cursor, codec: Codec, step: Callable[[Cursor], Awaitable[Item]]) -> None:
        self._cursor = cursor
        self._codec = codec
        self._step = step

    @property
    def offset(self) -> int:
        """The offset behind the last value that was given: a reader that begins there misses and repeats nothing."""
        return self._cursor.offset

    def __aiter__(self) -> AsyncStreamReader[T]:
        return self

    async def __anext__(self) -> T:
        item = await self._step(self._cursor)
        self._cursor.passed(item)
        if item.value is None:
            raise StopAsyncIteration
        value: T = delivered(item, self._codec)
        return value


async def next_item(cursor: Cursor, read: Callable[[Reading, int], Awaitable[Chunk]]) -> Item:
    """Return what a reader gives next, reading ahead if nothing is at hand."""
    while (item := cursor.take()) is None:
        cursor.feed(await read(cursor.reading, cursor.wanted()))
    return item


def next_item_blocking(cursor: Cursor, read: Callable[[Reading, int], Chunk]) -> Item:
    """Do as ``next_item`` from a thread."""
    while (item := cursor.take()) is None:
        cursor.feed(read(cursor.reading, cursor.wanted()))
    return item
