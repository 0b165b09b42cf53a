"""Whether the calling task was cancelled while something was carried to its end."""

from __future__ import annotations

import asyncio

_running = asyncio._get_running_loop  # noqa: SLF001 -- asks without raising, which would take longer than the call


def cancels() -> int:
    """Return how often the calling task has been asked to stop, and not been told to go on all the same.

    A store in memory is also driven by threads, which have no task.
    """
    loop = _running()
    task = None if loop is None else asyncio.current_task(loop)
    return 0 if task is None else task.cancelling()


__all__ = ["cancels"]
