"""Whole numbers as users give them, checked at the door: one that not every database keeps is refused by name."""

from __future__ import annotations

MOST_COUNTED = 2**31 - 1  # what the smallest column for a count holds
MOST_BITS = 2**63 - 1


def count(value: int, what: str, *, least: int = 0, most: int = MOST_COUNTED) -> int:
    """Return *value*; ``ValueError``, which begins with *what* it is, unless it is a whole number within its bounds."""
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{what} is a whole number from {least} to {most}, not {value!r:.50}.")
    return value


def number(value: int, what: str) -> int:
    """Return *value*; ``ValueError``, which begins with *what* it is, unless it is a whole number of 64 bits."""
    if type(value) is not int or not -MOST_BITS - 1 <= value <= MOST_BITS:
        raise ValueError(f"{what} is a whole number of at most 64 bits, not {value!r:.50}.")
    return value


__all__ = ["MOST_BITS", "MOST_COUNTED", "count", "number"]
