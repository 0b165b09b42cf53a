"""The calls that a breaker which is not closed lets through, as one process counts them."""

from __future__ import annotations

import threading
from typing import NamedTuple


class Trial(NamedTuple):
    """A call that a half-open breaker lets through: its slot, and whether the fleet knows of it."""

    token: str
    is_shared: bool
    epoch: int | None = None


class Trials:
    """Those that are under way in this process, *most* at a time; from any thread.

    One that is silent for longer than *timeout* seconds is counted no more: its slot is for another.
    """

    def __init__(self, most: int, timeout: float) -> None:
        self._most = most
        self._timeout = timeout
        self.forked()

    def forked(self) -> None:
        """Count none, in a forked child."""
        self._lock = threading.Lock()
        self._since: dict[str, float] = {}
        self._kept: list[Trial] = []

    def begin(self, trial: Trial, now: float) -> bool:
        """Count one more, if there is room for it at *now*."""
        with self._lock:
            self._since = {token: since for token, since in self._since.items() if now - since <= self._timeout}
            if len(self._since) >= self._most:
                return False
            self._since[trial.token] = now
            return True

    def end(self, trial: Trial) -> None:
        """Count it no more; nothing happens if it is not counted."""
        with self._lock:
            self._since.pop(trial.token, None)

    def keep(self, trial: Trial) -> None:
        """Keep a slot that nobody has waited for, for the next call that must not wait."""
        with self._lock:
            self._kept.append(trial)

    def kept(self, now: float) -> Trial | None:
        """Return a slot that is kept, and was asked for lately enough to be ours still."""
        with self._lock:
            while self._kept:
                trial = self._kept.pop(0)
                since = self._since.get(trial.token)
                if since is not None and now - since <= self._timeout:
                    return trial
        return None

    def keep_none(self) -> None:
        """Let go of what is kept: those slots are over."""
        with self._lock:
            for trial in self._kept:
                self._since.pop(trial.token, None)
            self._kept = []


__all__ = ["Trial", "Trials"]
