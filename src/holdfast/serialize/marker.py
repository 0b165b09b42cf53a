"""The marker in the ``serialization`` column: the format that made a text, and the codecs after it.

::

    marker  = format *( "+" codec [ ":" variant ] )        portable_json+zlib+aesgcm:k2

Codecs stand in the order in which they were applied; a reader undoes them from the right. No marker (NULL)
means the application's own format, without codecs.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from holdfast.errors import ConfigurationError

_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_CODEC = re.compile(r"[a-z0-9_]+")


class Applied(NamedTuple):
    """One codec that a text went through, and in which variant (empty when it has but one)."""

    codec: str
    variant: str

    def __str__(self) -> str:
        return f"{self.codec}:{self.variant}" if self.variant else self.codec


@lru_cache(maxsize=256)
def split(marker: str) -> tuple[str, tuple[Applied, ...]]:
    """Return the format and the applied codecs that *marker* names; an application meets few of them, very often."""
    format_, *parts = marker.split("+")
    cut = (part.partition(":") for part in parts)
    return format_, tuple(Applied(codec, variant) for codec, _, variant in cut)


def check_format(name: str) -> str:
    """Return *name* if a marker can hold it as a format."""
    return _check(_NAME, name, "format")


def check_codec(name: str) -> str:
    """Return *name* if a marker can hold it as a codec."""
    return _check(_CODEC, name, "codec")


def check_variant(name: str) -> str:
    """Return *name* if a marker can hold it as a variant, such as a key id."""
    return _check(_NAME, name, "variant")


def unreadable(marker: str | None) -> str:
    """Return what is shown in the place of a value that cannot be opened here."""
    return f"<cannot be read: {marker}>"


def _check(grammar: re.Pattern[str], name: str, what: str) -> str:
    if not grammar.fullmatch(name):
        raise ConfigurationError(f"{name!r} cannot be the name of a {what}: it must match {grammar.pattern}.")
    return name


__all__ = ["Applied", "check_codec", "check_format", "check_variant", "split", "unreadable"]
