"""What a saver has stored beside checkpoints: large values that need not be encoded and sent again."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.stores.threads import LargeValue, Place

_MOST = 10_000


class Stored:
    """The versions of large values that this saver knows to be stored, at most *most* of them; from any thread.

    It may be wrong, since values are deleted: a put that stands on it says so, and is made again with all values.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._known: set[tuple[str, str, str, str]] = set()
        self._channels: set[tuple[str, str, str]] = set()

    def has(self, place: Place, channel: str, version: str) -> bool:
        """Return whether this version of a channel was stored for the thread and namespace of *place*."""
        return (place.thread_id, place.checkpoint_ns, channel, version) in self._known

    def beside(self, place: Place, channel: str) -> bool:
        """Return whether a version of a channel was stored for the thread and namespace of *place*."""
        return (place.thread_id, place.checkpoint_ns, channel) in self._channels

    def add(self, place: Place, values: Iterable[LargeValue]) -> None:
        """Remember *values*; when there are too many, forget all others."""
        for value in values:
            if len(self._known) >= self._most:
                self._known, self._channels = set(), set()
            self._known.add((place.thread_id, place.checkpoint_ns, value.channel, value.version))
            self._channels.add((place.thread_id, place.checkpoint_ns, value.channel))
