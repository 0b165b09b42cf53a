"""Whether, and after how long, a failed attempt is followed by another."""

from __future__ import annotations

import traceback

from holdfast.model.workflow import Retry, seconds


def wait_before_retry(policy: Retry, attempt: int, error: BaseException, draw: float) -> float | None:
    """Return the seconds to wait after the *attempt*-th attempt failed with *error*, or None if that was the last.

    *draw* is a random number from 0 to 1 for the jitter.
    """
    if attempt >= policy.attempts or _is_final(policy, error) or not _is_worth_it(policy, error):
        return None
    try:
        full = min(seconds(policy.cap), seconds(policy.interval) * policy.backoff ** (attempt - 1))
    except OverflowError:  # beyond what a float holds, and so beyond the cap
        full = seconds(policy.cap) if seconds(policy.interval) > 0 else 0.0
    return min(full, full * (1 - policy.jitter) + full * policy.jitter * draw)  # rounding goes both ways


def _is_final(policy: Retry, error: BaseException) -> bool:
    """Whether *error* is one of those never to be tried again, or a group that holds one."""
    if isinstance(error, policy.never):
        return True
    return isinstance(error, BaseExceptionGroup) and any(_is_final(policy, each) for each in error.exceptions)


def _is_worth_it(policy: Retry, error: BaseException) -> bool:
    """Ask the policy's own code. What that cannot judge is final: it must not take the place of *error*."""
    try:
        return policy.when is None or bool(policy.when(error))
    except Exception as broken:  # noqa: BLE001 -- code of the user's may raise anything
        [*_, said] = traceback.format_exception_only(broken)
        error.add_note(f"It is not tried again, because the `when` of its Retry failed: {said.strip()}")
        return False
