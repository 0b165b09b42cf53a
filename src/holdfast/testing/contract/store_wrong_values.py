"""What is no key and no number, wherever a store asks for one; every door refuses it alike."""

from __future__ import annotations

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
NO_NUMBERS: tuple[Any, ...] = (1.5, True, "3", "", 10**30)

__all__ = ["NO_KEYS", "NO_NUMBERS", "NO_TEXTS"]
