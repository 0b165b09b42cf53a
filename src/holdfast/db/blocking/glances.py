"""Waiting on a loop for what threads do, without one more thread to wait: a program that is ending can begin none."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_EVERY = 0.002


async def until(is_so: Callable[[], bool]) -> None:
    """Wait until *is_so* says yes. For what happens when something opens or closes, and at no other time."""
    while not is_so():  # noqa: ASYNC110 -- what it looks at is not on this loop
        await asyncio.sleep(_EVERY)


__all__ = ["until"]
