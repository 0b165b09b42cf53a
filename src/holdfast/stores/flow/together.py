"""Writes of many tasks in one transaction: while one is under way the next ones gather."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, TypeVar

from holdfast.errors import DatabaseError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

V = TypeVar("V")

_MOST = 100
_MOST_BYTES = 4 * 1024 * 1024


class Together(Generic[V]):
    """Hands what tasks want written to *one*, if nobody else is at it, and otherwise, with all who wait, to *many*.

    What cannot be written together is written one by one, so that everybody is told of their own error, and a lone
    write is delayed by nothing. *size* says how many bytes a write has. It belongs to one loop.
    """

    def __init__(
        self,
        one: Callable[[V], Awaitable[bool]],
        many: Callable[[Sequence[V]], Awaitable[Sequence[bool]]],
        size: Callable[[V], int],
    ) -> None:
        self._one = one
        self._many = many
        self._size = size
        self._busy = False
        self._waiting: list[tuple[V, asyncio.Future[bool]]] = []
        self._going_on: asyncio.Task[None] | None = None

    async def write(self, value: V) -> bool:
        """Have *value* written; return what came of it. Once it waits for its turn it is written, come what may."""
        if self._busy:
            turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            self._waiting.append((value, turn))
            return await turn
        self._busy = True
        try:
            return await self._one(value)
        finally:
            self._pass_on()

    async def finish(self) -> None:
        """Wait until all that was handed over has been written."""
        if self._going_on is not None:
            await asyncio.wait([self._going_on])

    def _pass_on(self) -> None:
        self._busy = bool(self._waiting)
        if self._busy:
            self._going_on = asyncio.get_running_loop().create_task(self._all())

    async def _all(self) -> None:
        try:
            while batch := self._batch():
                await self._settle(batch)
        finally:
            self._busy = False

    def _batch(self) -> list[tuple[V, asyncio.Future[bool]]]:
        """Take those who wait, as many as fit; one always does."""
        taken, left = 0, _MOST_BYTES
        for value, _ in self._waiting[:_MOST]:
            left -= self._size(value)
            if taken and left < 0:
                break
            taken += 1
        batch, self._waiting = self._waiting[:taken], self._waiting[taken:]
        return batch

    async def _settle(self, batch: list[tuple[V, asyncio.Future[bool]]]) -> None:
        try:
            outcomes = await self._many([value for value, _ in batch])
        except DatabaseError:
            await asyncio.gather(*(self._alone(value, turn) for value, turn in batch))
            return
        for (_, turn), outcome in zip(batch, outcomes, strict=True):
            if not turn.done():  # its task was cancelled meanwhile
                turn.set_result(outcome)

    async def _alone(self, value: V, turn: asyncio.Future[bool]) -> None:
        try:
            outcome = await self._one(value)
        except DatabaseError as error:
            if not turn.done():
                turn.set_exception(error)
        else:
            if not turn.done():
                turn.set_result(outcome)
