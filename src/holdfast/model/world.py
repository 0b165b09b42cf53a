"""Time, sleep, ids and randomness as the program sees them: one injected object, so that a test can own all four.

Nothing else in the package reads a clock, makes an id or draws a random number. ``holdfast.testing.VirtualWorld``
stands in for tests: its time moves only when told to, and a seed makes every id and draw repeat.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from typing import Protocol


class World(Protocol):
    """What surrounds the program."""

    @property
    def random(self) -> random.Random:
        """Randomness for jitter and sampling; never for secrets."""

    def now(self) -> float:
        """Wall-clock time in seconds since the epoch, with at least microsecond digits."""

    def monotonic(self) -> float:
        """Seconds that never go back, for measuring spans."""

    async def sleep(self, seconds: float) -> None:
        """Let *seconds* of this world's time pass."""

    def new_id(self) -> str:
        """Return a fresh UUIDv7 as text. Order must never be read from it."""


class RealWorld:
    """The clock, the ids and the randomness of the machine."""

    now = staticmethod(time.time)  # both are asked several times a step, so no call of ours stands around them
    monotonic = staticmethod(time.monotonic)

    def __init__(self) -> None:
        self.random = random.Random()  # noqa: S311 -- jitter, not secrets

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def new_id(self) -> str:
        return _entropy.uuid7(time.time_ns() // 1_000_000)


_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}


def uuid7(milliseconds: int, entropy: bytes) -> str:
    """Lay out *milliseconds* and ten bytes of *entropy* as a UUID of version 7."""
    rest = entropy.hex()
    return f"{_head(milliseconds)}{rest[1:4]}{_tail(rest[4:])}"


def _head(milliseconds: int) -> str:
    """Return what a UUID of that time begins with, up to its version."""
    digits = f"{milliseconds:012x}"
    return f"{digits[:8]}-{digits[8:]}-7"


def _tail(digits: str) -> str:
    """Return what a UUID ends with: the variant in place of two bits of 16 *digits*."""
    return f"-{_VARIANT[digits[0]]}{digits[1:4]}-{digits[4:]}"


_COUNT = 12  # bits of an id behind its milliseconds that tell ids of one millisecond apart, before what is random
_LAST = (1 << _COUNT) - 1


class _Entropy:
    """A store of operating-system randomness, refilled in one call for many ids, and never shared with a fork.

    Ids of one process rise, so that what was made in one go and written in one millisecond keeps its order where ids
    break the tie; nothing may rest on that.
    """

    _BYTES = 8  # of an id, which are random but for its variant
    _IDS = 256

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._tails: list[str] = []
        self._last = 0  # the milliseconds and the count behind them, as one number
        self._head = _head(0)

    def uuid7(self, milliseconds: int) -> str:
        with self._lock:
            if not self._tails:
                drawn = os.urandom(self._BYTES * self._IDS).hex("-", self._BYTES)
                self._tails = [_tail(digits) for digits in drawn.split("-")]
            last, first = self._last + 1, milliseconds << _COUNT
            if first >= last:
                last, self._head = first, _head(milliseconds)
            elif not last & _LAST:  # so many ids in one millisecond that they go on in the next
                self._head = _head(last >> _COUNT)
            self._last = last
            return f"{self._head}{last & _LAST:03x}{self._tails.pop()}"


_entropy = _Entropy()

__all__ = ["RealWorld", "World", "uuid7"]
