"""Which texts every database keeps."""

from __future__ import annotations


def is_kept(text: str) -> bool:
    """Say whether *text* has neither a NUL nor half a character in it, which one database or another refuses."""
    return "\0" not in text and (text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text))


__all__ = ["is_kept"]
