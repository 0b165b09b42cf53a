"""What the URL of a Redis server says, and what it may not say."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

from holdfast.errors import InvalidURL

if TYPE_CHECKING:
    from collections.abc import Iterator

REDIS_SCHEMES = ("redis://", "rediss://", "redis+cluster://", "rediss+cluster://")

_FORM = "write redis://[user:password@]host:port/number"
_NUMBER = re.compile(r"[0-9]+")


def address_of(url: str) -> str:
    """Return which server and which database a URL names, whoever logs in; ``InvalidURL`` if it cannot be meant.

    The driver takes a database that is no number for the first one, and its texts for the bytes that stores read.
    """
    with readable_url():
        if not isinstance(url, str):
            raise TypeError
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query))
    if "decode_responses" in options:
        raise InvalidURL("The URL of Redis says decode_responses, and stores read bytes: leave it out.")
    server, number = parts.netloc.rpartition("@")[2], parts.path.removeprefix("/")
    if parts.scheme == "unix":
        server, number = parts.path, "0"
    number = options.get("db", number) or "0"
    if not _NUMBER.fullmatch(number):
        raise InvalidURL(f"A database of Redis has a number, and the URL says {number!r}: {_FORM}.")
    return f"{server}/{int(number)}"


@contextmanager
def readable_url() -> Iterator[None]:
    """Turn what the driver says of a URL into ``InvalidURL``, without its text: it may quote the password."""
    try:
        yield
    except (ValueError, TypeError):
        raise InvalidURL(
            f"The URL of Redis cannot be read, or has an option that the driver does not know: {_FORM}."
        ) from None


__all__ = ["REDIS_SCHEMES", "address_of", "readable_url"]
