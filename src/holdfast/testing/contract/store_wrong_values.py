"""What is no key, moment or number, wherever a store asks for one, and refused alike at every door; what is a key."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from enum import Enum
from typing import Any

from holdfast.errors import InvalidKey, TooLong

NO_KEYS: tuple[tuple[Any, type[Exception]], ...] = (
    (None, TypeError),
    (0, TypeError),  # to MariaDB it is equal to every text that does not begin with a digit
    (True, TypeError),
    (b"key", TypeError),
    ("", InvalidKey),
    ("a\0b", InvalidKey),
    ("\ud800", InvalidKey),
    ("x" * 513, TooLong),
)
NO_TEXTS = (0, 7, True, 1.5, b"key", ["key"])
NO_MOMENTS: tuple[tuple[Any, type[Exception]], ...] = (
    (0, TypeError),
    (date(2026, 1, 1), TypeError),
    (datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5))), ValueError),
)
NO_NUMBERS: tuple[Any, ...] = (1.5, True, "3", "", 10**30)


class Word(str, Enum):  # noqa: UP042 -- a text that is written otherwise than it reads
    """A member of an enum of texts is the text that it is, under which others find what is stored."""

    PAY = "pay"


__all__ = ["NO_KEYS", "NO_MOMENTS", "NO_NUMBERS", "NO_TEXTS", "Word"]
