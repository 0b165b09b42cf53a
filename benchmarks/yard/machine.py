"""How busy the machine is: benchmarks say it beside their figures, since others may be at work on it."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_IDLE = slice(3, 5)  # of the numbers in the first line of /proc/stat: idle, and waiting for a disk


@dataclass(slots=True)
class Busy:
    """Filled in when the block ends: *cores* that were busy in the mean, with everybody's work, and the *seconds*."""

    cores: float = 0.0
    seconds: float = 0.0


@contextmanager
def busy() -> Iterator[Busy]:
    """Measure how many cores are busy while the block runs."""
    found = Busy()
    before, begun = _ticks(), time.perf_counter()
    yield found
    found.seconds = time.perf_counter() - begun
    spent = [after - was for after, was in zip(_ticks(), before, strict=True)]
    found.cores = (1 - sum(spent[_IDLE]) / max(1, sum(spent))) * (os.cpu_count() or 1)


def load() -> str:
    """Return the load average of the last minute."""
    return f"{os.getloadavg()[0]:.1f}"


def _ticks() -> list[int]:
    return [int(number) for number in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
