"""A page of failed operations, and the cursor that says where the next one begins."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from holdfast.errors import ConfigurationError
from holdfast.model.dead_letter import FailedOperationData

if TYPE_CHECKING:
    from collections.abc import Iterable


class FailedOperationPage(list[FailedOperationData]):
    """Some of a listing. *cursor* asks for what follows; None after the last page."""

    def __init__(self, items: Iterable[FailedOperationData] = (), cursor: str | None = None) -> None:
        super().__init__(items)
        self.cursor = cursor


def written(last: FailedOperationData, *, newest: bool) -> str:
    """Return the cursor behind *last*, as a word that can stand in a URL."""
    plain = msgspec.json.encode([last.created_at, last.id, newest])
    return urlsafe_b64encode(plain).rstrip(b"=").decode()


def read(cursor: str, *, newest: bool) -> tuple[datetime, str]:
    """Return what the cursor stands behind; ``ConfigurationError`` for another text, or for the other order."""
    try:
        plain = urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))
        created_at, last_id, order = msgspec.json.decode(plain, type=tuple[datetime, str, bool])
    except (NotBase64, ValueError, AttributeError, msgspec.MsgspecError):
        raise ConfigurationError(
            "The cursor is not one of ours: pass on the cursor of the page before, as it is."
        ) from None
    if order is not newest:
        raise ConfigurationError("The cursor is of a listing in the other order: go on in the same one.")
    return created_at, last_id


__all__ = ["FailedOperationPage", "read", "written"]
