"""The checkpoint store as its users see it, and what a backend must do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.core.durations import milliseconds
from holdfast.core.numbers import MOST_BITS, count
from holdfast.errors import TooLong
from holdfast.stores.keys import checked_key
from holdfast.stores.opened import Opened

if TYPE_CHECKING:
    from holdfast.model.workflow import Duration

GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is kept: the least recently used goes first, until *max_entries* and *max_bytes* hold.

    What was neither saved nor loaded for *max_age_ms* goes too.
    """

    max_bytes: int | None
    max_entries: int | None
    max_age_ms: int | None

    @classmethod
    def of(cls, max_bytes: int | None, max_entries: int | None, max_age: Duration | None) -> Limits:
        """Return checked limits."""
        for name, value in (("max_bytes", max_bytes), ("max_entries", max_entries)):
            if value is not None:
                count(value, name, least=1, most=MOST_BITS)
        return cls(max_bytes, max_entries, None if max_age is None else milliseconds(max_age, "max_age", least=0.001))

    @property
    def any(self) -> bool:
        """Whether there is a limit at all."""
        return (self.max_bytes, self.max_entries, self.max_age_ms) != (None, None, None)


class CheckpointStore(Opened, ABC):
    """Named binary snapshots. The bytes that were saved are the bytes that are loaded.

    With limits the store stays within them after each save; without, it keeps everything.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    async def save(self, key: str, data: bytes) -> None:
        """Keep *data* under *key*, in place of what was there: whole and durable when this returns, or not at all.

        ``TypeError`` if it is not bytes, ``TooLong`` if it alone is larger than the store's ``max_bytes``.
        """
        key = checked_key(key, "checkpoint's key")
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError(f"The data of the checkpoint {key!r} is bytes, not {type(data).__name__}: encode it first.")
        content = bytes(data)
        if self._limits.max_bytes is not None and len(content) > self._limits.max_bytes:
            raise TooLong(
                f"The checkpoint {key!r} has {len(content)} bytes, the store keeps {self._limits.max_bytes} in all."
            )
        await self._save(key, content)
        if self._limits.any:
            await self._prune(key)

    async def load(self, key: str) -> bytes | None:
        """Return what was saved under *key*, and note that it was used; None if there is nothing."""
        return await self._load(checked_key(key, "checkpoint's key"))

    async def delete(self, key: str) -> bool:
        """Remove the checkpoint; return whether there was one."""
        return await self._delete(checked_key(key, "checkpoint's key"))

    async def list_keys(self, prefix: str = "") -> list[str]:
        """Return the keys that begin with *prefix*, sorted; no character in it has a second meaning."""
        return await self._keys("" if prefix == "" else checked_key(prefix, "prefix"))

    async def prune(self) -> int:
        """Remove what the limits do not allow, and return how many checkpoints that were."""
        return await self._prune(None) if self._limits.any else 0

    @abstractmethod
    async def _save(self, key: str, data: bytes) -> None:
        """Keep *data*."""

    @abstractmethod
    async def _load(self, key: str) -> bytes | None:
        """Return the data, and set the time of its last use to now."""

    @abstractmethod
    async def _delete(self, key: str) -> bool:
        """Remove it."""

    @abstractmethod
    async def _keys(self, prefix: str) -> list[str]:
        """Return sorted keys."""

    @abstractmethod
    async def _prune(self, just_saved: str | None) -> int:
        """Remove what is beyond the limits, and *just_saved* last, whatever the clock says of it."""


def is_gzip(data: bytes) -> bool:
    """Whether *data* begins as gzip does."""
    return data[:2] == GZIP


__all__ = ["CheckpointStore", "Limits", "is_gzip"]
