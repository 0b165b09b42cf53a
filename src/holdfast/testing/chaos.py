"""Chaos among worker processes: killed, paused past their lease and woken, replaced, while they carry out runs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from holdfast.testing.workers import Worker, until

if TYPE_CHECKING:
    import random
    from pathlib import Path

    from holdfast.testing.stage import Stage

_COLOURS = ("async", "sync")


class Chaos:
    """Some workers on a stage, whose fate is drawn from *draw*. Every run is ``walk(n)`` with a number of its own.

    Runs go no further than the pace they are at for as long as the file *hold* is there.
    """

    def __init__(
        self,
        scene: Stage,
        draw: random.Random,
        *,
        workers: int,
        lease: float,
        pauses: bool = True,
        hold: Path | None = None,
    ) -> None:
        self._settings = {"app": {"lease": lease}} | ({} if hold is None else {"held_while": str(hold)})
        self._scene = scene
        self._draw = draw
        self._lease = lease
        self._pauses = pauses
        self._workers = [self._recruit() for _ in range(workers)]
        self._paused: list[tuple[Worker, float]] = []
        self.wanted: dict[str, int] = {}
        self.kills = 0
        self.stops = 0

    def start(self, amount: int) -> None:
        """Ask workers for *amount* more runs; one that dies meanwhile may not have heard."""
        for _ in range(amount):
            number = len(self.wanted)
            self.wanted[f"run-{number}"] = number
            self._draw.choice(self._workers).tell("start", "walk", f"run-{number}", number)

    def is_busy(self) -> bool:
        """Whether each worker has begun a run that has not ended."""
        under_way = {run_id for run_id, status in self._scene.statuses().items() if status == "PENDING"}
        begun = {effect.pid for effect in self._scene.ledger.all() if effect.run_id in under_way}
        return {worker.pid for worker in self._workers} <= begun

    def strike(self) -> None:
        """Do something to somebody: kill and replace, pause for more than a lease, or wake."""
        self._wake_the_due()
        place = self._draw.randrange(len(self._workers))
        if self._pauses and self._draw.random() < 0.5:
            victim = self._workers[place]
            victim.pause()
            self._paused.append((victim, time.monotonic() + self._lease * self._draw.uniform(1.2, 2.5)))
            self.stops += 1
        else:
            self._workers[place].kill()
            self.kills += 1
        self._workers[place] = self._recruit()

    def settle(self) -> None:
        """Have one worker ask for every run, then wake the paused, and check that they changed nothing."""
        last = self._recruit()
        for run_id, number in self.wanted.items():
            last.tell("run", "walk", run_id, number)
        for run_id, number in self.wanted.items():
            assert last.hear("result", run_id, patience=120) == ["result", run_id, 3 * number]
        ended = self._outcomes()
        for worker, _ in self._paused:
            worker.wake()
            worker.tell("run", "short", f"awake-{worker.pid}", 1)
            assert worker.hear("result", f"awake-{worker.pid}")[2] == 3
            self.wanted[f"awake-{worker.pid}"] = 1
        assert ended.items() <= self._outcomes().items()
        assert self._scene.all_ended()
        assert len(self._scene.statuses()) == len(self.wanted)
        self._scene.check_record(woken=True)
        assert self.interrupted() > 0, "Nothing was under way when chaos struck, so nothing was shown."

    def _outcomes(self) -> dict[str, tuple[str, ...]]:
        rows = self._scene.fetch("SELECT workflow_uuid, status, output, owner_xid FROM {runs}")
        return {row["workflow_uuid"]: (row["status"], row["output"], row["owner_xid"]) for row in rows}

    def interrupted(self) -> int:
        """Return how many runs were begun more than once."""
        return len(self._scene.fetch("SELECT 1 AS one FROM {runs} WHERE executions > 1"))

    def _wake_the_due(self) -> None:
        """Wake who has been paused long enough; the woken one goes on beside its successor, knowing nothing of it."""
        now = time.monotonic()
        for worker, due in [entry for entry in self._paused if entry[1] <= now]:
            worker.wake()
            self._paused.remove((worker, due))

    def _recruit(self) -> Worker:
        return self._scene.ready(self._draw.choice(_COLOURS), **self._settings)


def pass_time(seconds: float) -> None:
    """Let chaos last: nothing is waited for here."""
    end = time.monotonic() + seconds
    until(lambda: time.monotonic() >= end)
