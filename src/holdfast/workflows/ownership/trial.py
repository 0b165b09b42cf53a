"""Runs that may be taking their executors down are tried alone, so that neighbours do not reach the cap with them.

A run is suspect when its executors died with it at least half as often as its cap allows, and it recorded nothing in
between. Most suspects only stood beside the culprit: a run that sleeps for a week records nothing either. So an
executor takes one suspect at a time, when nothing else runs there or else once a lease, and takes nothing from the
queue while that one is on trial. A suspect that lives for a lease, or records something, is cleared: its attempts
begin at 0 again. Runs that are started directly begin at once, trial or not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from holdfast.db.session import Row
    from holdfast.model.world import World
    from holdfast.workflows.running.run import Run


def is_suspect(attempts: int, cap: int) -> bool:
    """Whether a run that was released so often without progress is to be tried alone."""
    return attempts > 0 and attempts * 2 >= cap


def is_on_trial(run: Run) -> bool:
    """Whether *run* was begun as a suspect and is not cleared yet."""
    return run.suspect and is_suspect(run.attempts, run.definition.max_recovery_attempts)


class Trial:
    """Whom this executor has on trial, and when it may take the next suspect."""

    def __init__(self, world: World, lease: float) -> None:
        self._world = world
        self._lease = lease
        self._run: Run | None = None
        self._until = 0.0
        self._busy_since = world.monotonic()

    def begin(self, run: Run, over: Callable[[], None]) -> None:
        """Put *run* on trial; *over* is called when it has ended, from any thread."""
        self._run = run
        self._busy_since = self._world.monotonic()
        self._until = self._busy_since + self._lease
        run.watch(lambda _: over())

    def is_on(self) -> bool:
        """Whether somebody is on trial, so that nothing may be claimed."""
        return self._run is not None and not self._run.ended and self._run.suspect

    def cleared(self) -> Run | None:
        """Return, once, the suspect that has lived for a lease and has recorded nothing."""
        if not self.is_on() or self._world.monotonic() < self._until:
            return None
        run, self._run = self._run, None
        return run

    def takes_suspects(self, *, idle: bool) -> bool:
        """Whether suspects may be claimed now: when nothing runs here, or when that was not so for a whole lease."""
        now = self._world.monotonic()
        if idle:
            self._busy_since = now
        return idle or now - self._busy_since >= self._lease

    def sort(self, rows: Sequence[Row], caps: Mapping[str, int], *, idle: bool) -> tuple[list[Row], list[Row]]:
        """Part what was claimed into runs to begin, with one suspect at most, and runs to give back."""
        suspects = [row for row in rows if is_suspect(row["recovery_attempts"], caps[row["name"]])]
        others = [row for row in rows if row not in suspects]
        # An idle executor that has other work does that. It takes a suspect once it has been busy for a whole lease.
        kept = 0 if others and idle else 1
        return others + suspects[:kept], suspects[kept:]
