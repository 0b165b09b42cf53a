"""Waiting for what goes on whether its task is cancelled or not: a commit that was asked for."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


async def outlast(future: asyncio.Future[T]) -> T:
    """Return or raise the outcome of *future*, however often this task is cancelled meanwhile.

    That it was is seen by ``Task.cancelling()``.
    """
    while not future.done():
        with suppress(asyncio.CancelledError):
            await asyncio.shield(future)
    return future.result()
