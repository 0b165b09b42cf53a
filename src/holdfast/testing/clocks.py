"""Processes whose wall clock is wrong, by libfaketime: ahead, behind, too fast, and set anew while they run.

Everything in such a process is told the wrong time, its copy of SQLite too. Its monotonic clock is right.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, SupportsIndex

from holdfast.testing.skips import SkipReason, skip

if TYPE_CHECKING:
    from collections.abc import Mapping

PACKAGE = "libfaketime"
_PLACES = ("/usr/lib/*/faketime", "/usr/lib*/faketime", "/usr/local/lib/faketime")
_SAID = "FAKETIME_TIMESTAMP_FILE"
_LIBRARY = "libfaketimeMT.so.1"  # the one for programs with threads


def library() -> Path | None:
    """Return where libfaketime is; None if it is not on this machine."""
    return next((found for place in _PLACES for found in Path("/").glob(f"{place[1:]}/{_LIBRARY}")), None)


class WrongClock:
    """The clock of processes that are started with its ``environment``.

    What it says is written as libfaketime has it: ``+90m``, ``-3h``, ``+0 x5`` for one that runs five times as fast.
    Making one skips the test where there is no libfaketime.
    """

    def __init__(self, file: Path, said: str) -> None:
        found = library()
        if found is None:
            skip(SkipReason.NO_FAKETIME)
        self._file = file
        self.set(said)
        self.environment: Mapping[str, str] = {
            "LD_PRELOAD": str(found),
            _SAID: str(file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }

    def set(self, said: str) -> None:
        """Let it say another time from now on."""
        new = self._file.with_suffix(".new")
        new.write_text(f"{said}\n", encoding="ascii")
        new.replace(self._file)  # at no moment is it empty


def mend_sleep() -> None:
    """Let ``time.sleep`` work in this process, if it has a wrong clock.

    Python sleeps until a moment of the monotonic clock. libfaketime leaves that clock alone and moves the moment all
    the same, so that the system refuses it.
    """
    if _SAID not in os.environ:
        return
    never = threading.Event()

    def sleep(seconds: float | SupportsIndex, /) -> None:
        never.wait(float(seconds))

    time.sleep = sleep


__all__ = ["PACKAGE", "WrongClock", "library", "mend_sleep"]
