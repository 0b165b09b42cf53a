"""What stands below the help of a command: lines that can be typed."""

from __future__ import annotations


def examples(*lines: str) -> str:
    """Return an epilog for click."""
    # A backspace is what has click leave the lines as they are.
    return "\n".join(["\b", "Examples:", *(f"  holdfast {line}" for line in lines)])


__all__ = ["examples"]
