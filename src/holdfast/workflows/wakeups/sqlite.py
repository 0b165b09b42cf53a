"""Hints between the processes that share a SQLite file: each watches the write-ahead log, which every commit changes.

Nobody has to tell: the commit is the hint. Looking takes no lock and no statement. It cannot be seen whose commit it
was, so one's own is a hint as well.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# What a look costs is not the look but the waking up of an idle loop: a tenth of a millisecond or less.
_LOOK_EVERY = 0.06
_LOOK_AGAIN = 0.025  # after a wake: what follows a commit is often another one
# A commit is in the log before it is on the disk, and readers see it only after that. A look for work that came at
# once would be too early for a commit whose disk is slow, and nothing would call for another one.
_SETTLE = 0.02


class SqliteWakeUps:
    """Calls *wake* after the log of the file at *path* has changed: once for all changes of a moment."""

    def __init__(self, path: str, wake: Callable[[], None]) -> None:
        # SQLite puts the log beside the file that a link leads to, and keeps to it if the process changes its folder.
        self._log = f"{os.path.realpath(path)}-wal"
        self._wake = wake
        self._seen: tuple[int, int, int] | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def alive(self) -> bool:
        """Whether the log is there and watched."""
        return self._timer is not None and self._seen is not None

    async def start(self) -> None:
        """Look for the first time, and from then on; what others wrote before counts as a change."""
        self._loop = asyncio.get_running_loop()
        self._seen = self._state()
        self._timer = self._loop.call_later(_SETTLE, self._settled)

    async def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def tell(self) -> None:
        """Do nothing: others see the commit itself."""

    def _look(self) -> None:
        state = self._state()
        if state == self._seen:
            self._timer = self._loop.call_later(_LOOK_EVERY, self._look)
        else:
            self._seen = state
            self._timer = self._loop.call_later(_SETTLE, self._settled)

    def _settled(self) -> None:
        """Wake; what was written since the look before is a change for the next one."""
        self._timer = self._loop.call_later(_LOOK_AGAIN, self._look)
        self._wake()

    def _state(self) -> tuple[int, int, int] | None:
        """Return what every commit changes: the size, or the time of a log that begins anew; None if it is gone."""
        try:
            found = os.stat(self._log)  # noqa: PTH116 -- many times a second, without a Path object
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns
