"""Where tasks go that failed for the last time: any dead-letter queue, as far as the task queue knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from holdfast import faults
from holdfast.stores.tasks.task import payload_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.db.session import Row, Transaction

OWED_MS = 60_000  # a dead letter that is not made by then is made by whoever looks next


class DeadLetterSink(Protocol):
    """What a task queue asks of a dead-letter queue.

    One that also has ``enqueue_in(transaction, ...)``, with the same arguments, and the ``manager`` of the task queue,
    gets exactly one letter: in the transaction in which a task fails for the last time, or, for one whose last lease
    ran out, in the transaction that notes that it is made. Any other gets it afterwards, at least once.
    """

    async def enqueue(self, workflow_id: str, error: str, payload: Any, max_retries: int = 3) -> str:
        """Keep a letter and return its id."""


class Letters:
    """Makes dead letters of tasks. *sink* may be None: then the tasks stay where they are, and that is all."""

    def __init__(self, sink: DeadLetterSink | None, manager: object) -> None:
        self._sink = sink
        self.joined = (
            sink is not None and hasattr(sink, "enqueue_in") and getattr(sink, "manager", None) is manager is not None
        )
        # Of a task that fails, and of one whose lease is found to be over by a claim, which is one statement.
        self.owed_ms = None if sink is None or self.joined else OWED_MS
        self.owed_by_claim_ms = None if sink is None else OWED_MS

    async def make_in(self, transaction: Transaction, dead: Iterable[Row]) -> None:
        """Make letters in *transaction*, if the sink can do that."""
        if self.joined:
            sink: Any = self._sink
            for row in dead:
                await sink.enqueue_in(transaction, **_letter(row))

    async def make(self, row: Row) -> bool:
        """Make the letter that is owed for a task; False if nobody wants it."""
        if self._sink is None:
            return False
        faults.point("task.letter_owed")
        await self._sink.enqueue(**_letter(row))
        return True


def _letter(row: Row) -> dict[str, Any]:
    return {
        "workflow_id": row["task_id"],
        "error": row["error"],
        "payload": {
            "task_id": row["task_id"],
            "queue_name": row["queue_name"],
            "payload": payload_of(row["payload"]),
            "attempts": row["attempts"],
        },
        "max_retries": row["max_attempts"],
    }


__all__ = ["DeadLetterSink", "Letters"]
