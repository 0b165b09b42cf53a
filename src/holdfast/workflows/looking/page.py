"""A page of a listing, and the cursor that says where the next one begins."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec

from holdfast.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable

T = TypeVar("T")


class Page(list[T]):
    """Some of a listing. *cursor* asks for what follows; None after the last page."""

    def __init__(self, items: Iterable[T] = (), cursor: str | None = None) -> None:
        super().__init__(items)
        self.cursor = cursor


class Cursor(NamedTuple):
    """The last run of a page, and the order in which it stood there."""

    created_at: int
    workflow_id: str
    newest_first: bool

    def text(self) -> str:
        """Return the cursor as a word that can stand in a URL."""
        return urlsafe_b64encode(msgspec.json.encode(list(self))).rstrip(b"=").decode()

    @classmethod
    def read(cls, text: str, *, newest_first: bool) -> Cursor:
        """Return the cursor that is *text*. Raises ``ConfigurationError`` for another text, or for the other order."""
        try:
            plain = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
            cursor = cls(*msgspec.json.decode(plain, type=tuple[int, str, bool]))
        except (NotBase64, ValueError, AttributeError, msgspec.MsgspecError):
            raise ConfigurationError(
                "The cursor is not one of ours: pass on the cursor of the page before, as it is."
            ) from None
        if cursor.newest_first is not newest_first:
            order = "newest" if cursor.newest_first else "oldest"
            raise ConfigurationError(f"The cursor is of a listing with the {order} first: go on in the same order.")
        return cursor


__all__ = ["Cursor", "Page"]
