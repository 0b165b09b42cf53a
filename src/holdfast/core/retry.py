"""Whether, and after how long, a failed attempt is followed by another."""

from __future__ import annotations

from holdfast.model.workflow import Retry, seconds


def wait_before_retry(policy: Retry, attempt: int, error: BaseException, draw: float) -> float | None:
    """Return the seconds to wait after the *attempt*-th attempt failed with *error*, or None if that was the last.

    *draw* is a random number from 0 to 1 for the jitter.
    """
    if attempt >= policy.attempts or isinstance(error, policy.never):
        return None
    if policy.when is not None and not policy.when(error):
        return None
    try:
        full = min(seconds(policy.cap), seconds(policy.interval) * policy.backoff ** (attempt - 1))
    except OverflowError:  # beyond what a float holds, and so beyond the cap
        full = seconds(policy.cap) if seconds(policy.interval) > 0 else 0.0
    return full * (1 - policy.jitter) + full * policy.jitter * draw
