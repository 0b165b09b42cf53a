"""Named places where a test may kill the process, or make it fail.

Code announces a place with ``point("pipeline.before_commit")``. Nothing happens there unless a test has armed that
name in the same process, so the cost in production is one comparison. Every name must stand in ``POINTS``: a test
that arms a name nobody announces would prove nothing.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

POINTS = {
    "pipeline.taken": "a batch has been taken out of the mailbox, nothing is written",
    "pipeline.before_commit": "the batch is written in an open transaction",
    "pipeline.after_commit": "the commit has returned, nobody has been told",
    "pipeline.acknowledged": "the waiters have been told",
    "run.started": "the start of a run is committed, its code has not begun",
    "run.before_user_code": "the workflow's code is about to begin",
    "run.outcome_written": "the outcome of a run is committed, nobody has been told",
    "run.told": "whoever waited for the outcome has been told",
    "enqueue.before_commit": "runs that are enqueued together stand in an open transaction",
    "run.enqueued": "runs are in their queues, nobody has been told",
    "claim.before_commit": "runs of a limited queue are claimed in an open transaction",
    "run.claimed": "a claim is committed, nothing runs yet",
    "run.loaded": "the history of claimed runs is loaded, nothing runs yet",
    "run.put_away": "a run that waits for long is put away, nothing of it runs any more",
    "run.handed_over": "a run has been handed over by a stopping executor",
    "step.before_user_code": "an operation is about to be carried out",
    "step.after_user_code": "an operation has been carried out and is not recorded",
    "step.recorded": "an operation is recorded",
    "transaction.before_record": "a transaction's function has returned, its record is not written",
    "transaction.before_commit": "a transaction's writes and its record stand in an open transaction",
    "transaction.committed": "a transaction is committed, nobody has been told",
    "child.started": "the start of a child and its record are committed",
    "message.sent": "messages are committed, nobody has been told",
    "message.consumed": "the record of recv is committed, with the message it has consumed, if there was one",
    "event.set": "events are committed, nobody has been told",
    "stream.written": "entries of a stream are committed, nobody has been told",
    "timer.set": "the end of a sleep is recorded",
    "beat": "a beat has been acknowledged",
    "release.begun": "a silent executor's row is removed, its runs are still its own",
    "release.done": "the runs of a silent executor are released",
    "control.changed": "a change somebody asked for is made; if a workflow did, it commits with its record",
    "control.before_commit": "a change a workflow asked for, and its record, stand in an open transaction",
    "control.recorded": "a change a workflow asked for is committed with its record, nobody has been told",
    "schedule.before_commit": "the runs of due slots stand in an open transaction, with the move of their schedules",
    "schedule.fired": "the runs of due slots are committed, nobody has been told",
    "key.claimed": "an idempotency key is claimed, nobody has been told",
    "key.before_result": "the result of an idempotency key is about to be stored",
    "key.result_stored": "the result of an idempotency key is stored, nobody has been told",
    "dead_letter.made": "a dead letter is stored, nobody has been told",
    "dead_letters.before_commit": "a change of several dead letters stands in an open transaction",
    "dead_letters.changed": "a change of several dead letters is committed, nobody has been told",
    "task.put": "tasks are in their queue, nobody has been told",
    "task.taken": "tasks are taken, nobody has been told",
    "task.ended": "a task is completed, failed or given back, nobody has been told",
    "task.letter_owed": "a task had its last attempt, and its dead letter is not made",
    "lock.acquired": "a lock is acquired, nobody has been told",
    "lock.released": "a lock is released, nobody has been told",
    "flow.listed": "a new flow checkpoint stands in the list of its flow, its file is not written",
    "flow.stored": "a flow checkpoint is stored, nobody has been told",
    "flow.claimed": "a flow checkpoint is claimed, nobody has been told",
    "flow.removed": "the files of flow checkpoints are removed, the list of their flow still names them",
    "migration.before": "a migration is about to begin",
    "migration.before_commit": "a migration's statements have run, its version is not committed",
    "migration.after_commit": "a migration is committed",
}

_armed: dict[str, Callable[[], None]] = {}


def point(name: str) -> None:
    """Announce that the program has come to the place *name*."""
    if _armed and (action := _armed.get(name)) is not None:
        action()


def arm(name: str, action: Callable[[], None] | None = None, *, at: int = 1) -> None:
    """Run *action* (by default: SIGKILL to this process) the *at*-th time the program comes to *name*."""
    if name not in POINTS:
        raise LookupError(f"There is no fault point {name!r}; the known ones are: {', '.join(sorted(POINTS))}.")
    wanted = action if action is not None else _die
    passed = 0

    def act() -> None:
        nonlocal passed
        passed += 1
        if passed == at:
            wanted()

    _armed[name] = act


def disarm() -> None:
    """Make all points inert again."""
    _armed.clear()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
