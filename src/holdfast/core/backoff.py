"""How long to wait before trying again."""

from __future__ import annotations


def backoff(attempt: int, *, base: float, cap: float, draw: float) -> float:
    """Return the seconds to wait after the *attempt*-th failure (from 1): doubling, capped, half of it jitter.

    *draw* is a random number from 0 to 1, given by the caller so that a seed repeats the wait.
    """
    full = min(cap, base * 2.0 ** min(attempt - 1, 60))
    return full / 2 + full / 2 * draw
