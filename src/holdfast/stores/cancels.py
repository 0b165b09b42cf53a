"""Whether the calling task was cancelled while something was carried to its end."""

from __future__ import annotations

import asyncio


def cancels() -> int:
    """Return how often the calling task has been asked to stop, and not been told to go on all the same."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


__all__ = ["cancels"]
