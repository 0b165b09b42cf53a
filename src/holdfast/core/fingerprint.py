"""A short text that tells whether a call is the same call as before: its name and what it was given."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b


def fingerprint(name: str, arguments: bytes) -> str:
    """Return 16 hexadecimal digits for a call of *name* with the encoded *arguments*."""
    whole = _begun(name).copy()
    whole.update(arguments)
    return whole.hexdigest()


@lru_cache(maxsize=1024)
def _begun(name: str) -> blake2b:
    return blake2b(b"%b\0" % name.encode(), digest_size=8)
