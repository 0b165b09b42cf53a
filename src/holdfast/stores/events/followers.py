"""Those who follow streams: told at once of what is appended here, and by a poll of what others append.

One poll asks for all streams that somebody waits for, however many there are. It runs only while somebody follows.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager, suppress
from contextvars import Context
from typing import TYPE_CHECKING

from holdfast.errors import DatabaseError, FailureKind, HoldfastError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

    from holdfast.model.world import World

logger = logging.getLogger("holdfast.stores")


class Follower:
    """One who follows a stream. *last* is the highest number of the stream that was heard of."""

    def __init__(self, stream_key: str) -> None:
        self.stream_key = stream_key
        self.last = 0
        self.waits = False
        self._news = asyncio.Event()
        self._error: BaseException | None = None
        self._over = False

    @property
    def is_over(self) -> bool:
        """Whether the store was closed."""
        return self._over and self._error is None

    async def beyond(self, sequence: int, timeout: float | None) -> int | None:  # noqa: ASYNC109 -- an answer, no error
        """Wait until the stream is known to go beyond *sequence*, and return its last number.

        None when *timeout* seconds were not enough, or nobody will tell any more. An error of the poll is raised.
        """
        self.waits = True
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    while self.last <= sequence and self._error is None and not self._over:
                        self._news.clear()
                        await self._news.wait()
        finally:
            self.waits = False
        if self._error is not None:
            raise self._error
        return self.last if self.last > sequence else None

    def tell(self, last: int) -> None:
        """Say which number the stream has come to."""
        if last > self.last:
            self.last = last
            self._news.set()

    def end(self, error: BaseException | None = None) -> None:
        """Say that nothing more will be told, and why if it is an error."""
        self._over, self._error = True, error
        self._news.set()


class Followers:
    """All followers of one store. *look* returns the last numbers of streams; it is asked every *interval* seconds."""

    def __init__(
        self, look: Callable[[Sequence[str]], Awaitable[Mapping[str, int]]], world: World, interval: float
    ) -> None:
        self._look = look
        self._world = world
        self._interval = interval
        self._following: dict[str, set[Follower]] = {}
        self._poll: asyncio.Task[None] | None = None

    @contextmanager
    def follow(self, stream_key: str) -> Iterator[Follower]:
        """Be one who follows *stream_key* for the length of the block."""
        follower = Follower(stream_key)
        self._following.setdefault(stream_key, set()).add(follower)
        if self._poll is None or self._poll.done():
            loop = asyncio.get_running_loop()  # the poll outlives this follower: it takes nothing from its context
            self._poll = loop.create_task(self._watch(), name="holdfast-follow", context=Context())
        try:
            yield follower
        finally:
            others = self._following.get(stream_key, set())
            others.discard(follower)
            if not others:
                self._following.pop(stream_key, None)

    def are_there(self, stream_key: str) -> bool:
        """Whether anybody follows *stream_key*; from any thread. Who begins now has yet to read, and misses nothing."""
        return stream_key in self._following

    def tell(self, stream_key: str, last: int) -> None:
        """Wake those who follow *stream_key*, which has come to the number *last*."""
        for follower in self._following.get(stream_key, ()):
            follower.tell(last)

    async def close(self) -> None:
        """End every follower's wait and the poll."""
        self._end(None)
        poll, self._poll = self._poll, None
        if poll is not None:
            poll.cancel()
            with suppress(asyncio.CancelledError):
                await poll

    def _end(self, error: BaseException | None) -> None:
        for followers in self._following.values():
            for follower in followers:
                follower.end(error)

    async def _watch(self) -> None:
        away = False
        while self._following:
            await self._world.sleep(self._interval)
            waited_for = [key for key, those in self._following.items() if any(each.waits for each in those)]
            try:
                lasts = await self._look(waited_for) if waited_for else {}
            except HoldfastError as error:
                if not isinstance(error, DatabaseError) or error.kind is FailureKind.FATAL:
                    self._end(error)
                    return
                if not away:
                    logger.warning("The event log cannot be looked at; those who follow it wait: %s", error)
                away = True
                continue
            away = False
            for stream_key, last in lasts.items():
                self.tell(stream_key, last)
