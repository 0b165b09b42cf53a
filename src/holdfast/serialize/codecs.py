"""Codecs: reversible changes of a serialized value's bytes, stacked, each leaving its mark."""

from __future__ import annotations

import zlib
from typing import Protocol

from holdfast.errors import CodecError, ConfigurationError
from holdfast.serialize.marker import split


class Codec(Protocol):
    """One reversible change of bytes. Must be safe to call from several threads at once."""

    @property
    def name(self) -> str:
        """The name in the marker: lower-case letters, digits, ``_``. Stored for good: never change it."""

    def choose(self, data: bytes) -> str | None:
        """Return the variant to encode *data* in (a key id; "" if there is but one), or None to leave it."""

    def encode(self, data: bytes, variant: str, bound: bytes) -> bytes:
        """Return *data* changed.

        *bound* is the marker up to and including this codec. A codec that authenticates must bind it, so that
        a value cannot be passed off as another format's.
        """

    def decode(self, data: bytes, variant: str, bound: bytes) -> bytes:
        """Undo :meth:`encode`; raise :class:`CodecError`, showing neither data nor keys, if that fails."""


class Compression:
    """zlib, for values of at least *min_bytes*; smaller ones stay plain and are marked so.

    A value that would inflate to more than *max_bytes* is refused on reading and left plain on writing, so a
    small hostile row cannot take all memory.
    """

    name = "zlib"

    def __init__(self, *, min_bytes: int = 1024, level: int = 6, max_bytes: int = 256 * 1024 * 1024) -> None:
        if not 0 <= level <= 9:
            raise ConfigurationError(f"zlib has levels 0 to 9, not {level}.")
        if min_bytes < 0 or max_bytes < 1:
            raise ConfigurationError("min_bytes must not be negative, and max_bytes must be at least 1.")
        self._min_bytes = min_bytes
        self._level = level
        self._max_bytes = max_bytes

    def choose(self, data: bytes) -> str | None:
        return "" if self._min_bytes <= len(data) <= self._max_bytes else None

    def encode(self, data: bytes, variant: str, bound: bytes) -> bytes:
        del variant, bound
        if len(data) > self._max_bytes:
            raise CodecError(
                f"A value of {len(data)} bytes is over the limit of {self._max_bytes} bytes of Compression."
            )
        return zlib.compress(data, self._level)

    def decode(self, data: bytes, variant: str, bound: bytes) -> bytes:
        del variant, bound
        opened = zlib.decompressobj()
        try:
            plain = opened.decompress(data, self._max_bytes + 1)
        except zlib.error as error:
            raise CodecError("A compressed value is damaged and cannot be inflated.") from error
        if len(plain) > self._max_bytes:
            raise CodecError(
                f"A compressed value inflates to more than {self._max_bytes} bytes. If it is yours, raise"
                " max_bytes of Compression.",
            )
        if not opened.eof or opened.unused_data:
            raise CodecError("A compressed value is damaged: it is cut off, or something follows it.")
        return plain

    def __repr__(self) -> str:
        return f"Compression(min_bytes={self._min_bytes}, level={self._level}, max_bytes={self._max_bytes})"


def is_hidden(marker: str | None) -> bool:
    """Whether what is stored under *marker* went through a codec that keeps it from whoever reads the tables."""
    return marker is not None and any(each.codec != Compression.name for each in split(marker)[1])


__all__ = ["Codec", "Compression", "is_hidden"]
