"""How a call that cannot pass at once is let through by a breaker, as a trial or since it is closed after all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.db.session import run_sync
from holdfast.errors import CircuitOpen, DatabaseError
from holdfast.resilience.policy import BreakerMode

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.resilience.standing import Standing
    from holdfast.resilience.trials import Trial


class Admission:
    """Asks for calls of one breaker: the fleet's repository where one is shared and answers, else this process alone.

    *closed* is called where the breaker turns out to be closed.
    """

    def __init__(self, standing: Standing, closed: Callable[[], None]) -> None:
        self._standing = standing
        self._closed = closed
        self._mode = standing.policy.mode

    def admit(self) -> Trial | None:
        """Let a call through, as a trial if the breaker is not closed; ``CircuitOpen`` if not."""
        if self._mode is BreakerMode.DISABLED:
            return None
        standing, sharing = self._standing, self._standing.sharing
        known = standing.begin()
        if known is not None and sharing is not None and not sharing.is_own_thread:
            try:
                sharing.wait_blocking(known)
            except DatabaseError as error:
                standing.lost(error)
        try:
            return self._trial()
        except CircuitOpen:
            if self._mode is BreakerMode.ENFORCE:
                raise
            return None

    async def admit_async(self) -> Trial | None:
        """Do as ``admit`` on an event loop."""
        if self._mode is BreakerMode.DISABLED:
            return None
        standing, sharing = self._standing, self._standing.sharing
        known = standing.begin()
        if known is not None and sharing is not None:
            try:
                await sharing.wait(known)
            except DatabaseError as error:
                standing.lost(error)
        try:
            return await self._trial_async()
        except CircuitOpen:
            if self._mode is BreakerMode.ENFORCE:
                raise
            return None

    def _trial(self) -> Trial | None:
        standing, sharing = self._standing, self._standing.sharing
        must_not_wait = sharing is not None and sharing.is_own_thread
        if must_not_wait and (permitted := standing.permitted()) is not None:
            return permitted
        trial = standing.ask()
        if trial is None or not trial.is_shared or sharing is None:
            return self._own_trial(trial)
        if must_not_wait:
            raise standing.fetch(trial)
        try:
            answer = sharing.ask_blocking(standing.question(trial))
        except DatabaseError as error:
            return self._lost_trial(trial, error)
        except BaseException:
            standing.released(trial)
            raise
        return trial if standing.answered(trial, answer) else None

    async def _trial_async(self) -> Trial | None:
        standing, sharing = self._standing, self._standing.sharing
        trial = standing.ask()
        if trial is None or not trial.is_shared or sharing is None:
            return self._own_trial(trial)
        try:
            answer = await sharing.ask(standing.question(trial))
        except DatabaseError as error:
            return self._lost_trial(trial, error)
        except BaseException:
            standing.released(trial)
            raise
        return trial if standing.answered(trial, answer) else None

    def _own_trial(self, trial: Trial | None) -> Trial | None:
        """Decide about a trial in this process; None if the breaker is closed."""
        if trial is None:
            self._closed()
            return None
        return trial if self._standing.answered(trial, run_sync(self._standing.question(trial))) else None

    def _lost_trial(self, trial: Trial, error: DatabaseError) -> Trial | None:
        """Decide in this process after all, since the repository did not answer."""
        self._standing.not_answered(trial)
        self._standing.lost(error)
        return self._own_trial(self._standing.ask())


__all__ = ["Admission"]
