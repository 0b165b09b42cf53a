"""Whether two requests are the same: SHA-256 over method, path, query, body, and chosen headers."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.web.settings import texts

if TYPE_CHECKING:
    from collections.abc import Iterable

_canonical = msgspec.json.Encoder(order="sorted").encode


class RequestFingerprinter:
    """Makes fingerprints of requests; *include_headers* are the names of headers that count too."""

    def __init__(self, include_headers: Iterable[str] = ()) -> None:
        self._names = tuple(sorted(name.lower() for name in texts(include_headers, "include_headers")))

    def create_fingerprint(
        self,
        method: str,
        path: str,
        query_params: Mapping[str, Any] | str | bytes | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> str:
        """Return 64 hexadecimal digits. Methods count in any case; an empty query or body counts as none.

        Text and bytes count as they are. Anything else counts as its JSON with sorted keys: the order in which a
        client writes the members of an object makes no other request.
        """
        chosen = {name.lower(): value for name, value in (headers or {}).items()} if self._names else {}
        parts = [method.upper().encode(), path.encode(errors="surrogateescape"), _bytes(query_params), _bytes(body)]
        parts += [f"{name}: {chosen[name]}".encode() for name in self._names if name in chosen]
        digest = hashlib.sha256()
        for part in parts:
            digest.update(b"%d:" % len(part))  # so that no part runs into the next
            digest.update(part)
        return digest.hexdigest()


def _bytes(value: Any) -> bytes:
    if value is None or (isinstance(value, Mapping) and not value):
        return b""
    if isinstance(value, str):
        return value.encode(errors="surrogateescape")
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    return _canonical(dict(value) if isinstance(value, Mapping) else value)


__all__ = ["RequestFingerprinter"]
