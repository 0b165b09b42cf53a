"""Where the suites of queues play: an application with one queue and a workflow that says when it begins."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from holdfast.testing.contract.workflows_stage import App, Flow, Handle, Stage

if TYPE_CHECKING:
    from holdfast.db.session import Row
    from holdfast.model.queue import Queue
    from holdfast.testing.contract.workflows_stage import Gate

LONG = 3600.0


class Line:
    """An application with one queue, and a workflow whose runs wait before a gate if there is one."""

    def __init__(self, stage: Stage, gate: Gate | None = None, name: str | None = None, **settings: Any) -> None:
        self.stage = stage
        self.app: App = stage.app(**settings)
        self.name = name or f"queue-{secrets.token_hex(8)}"
        self.began: list[int] = []

        async def pass_by(number: int) -> int:
            self.began.append(number)
            if gate is not None:
                await gate()
            return number

        self.flow: Flow = self.app.workflow(pass_by, name=f"pass_by-{stage.version}")

    async def register(self, **settings: Any) -> Queue:
        queue: Queue = await self.app.do("register_queue", self.name, **settings)
        return queue

    async def enqueue(self, *numbers: int, **options: Any) -> list[Handle]:
        """Enqueue a run for each number, one after the other."""
        flow = self.flow.raw.options(queue_name=self.name, **options)
        return [Handle(self.app, await self.app.value(flow.enqueue(number))) for number in numbers]

    async def enqueue_together(self, *numbers: int, **options: Any) -> list[Handle]:
        """Enqueue a run for each number in one commit."""
        flow = self.flow.raw.options(queue_name=self.name, **options)
        made = await self.app.value(flow.enqueue_many([flow.call(number) for number in numbers]))
        return [Handle(self.app, each) for each in made]

    def one_after_the_other(self, handles: list[Handle]) -> None:
        """Have these runs come at times of their own: those of one millisecond have no order among them."""
        runs = self.stage.table("workflow_status")
        for place, handle in enumerate(handles):
            self.stage.execute(
                f"UPDATE {runs} SET created_at = ? WHERE workflow_uuid = ?", 1_000_000 + place, handle.workflow_id
            )

    def rows(self, status: str | None = None) -> list[Row]:
        """Return the runs of the queue, those of one status if that is said."""
        found = self.stage.rows(
            f"SELECT * FROM {self.stage.table('workflow_status')} WHERE queue_name = ? ORDER BY started_at_epoch_ms",
            self.name,
        )
        return [row for row in found if status in (None, row["status"])]

    def starts(self) -> list[Row]:
        """Return the ledger of starts, oldest first."""
        table = self.stage.table("queue_starts")
        return self.stage.rows(f"SELECT * FROM {table} WHERE queue_name = ? ORDER BY started_at", self.name)

    async def until(self, status: str, count: int) -> None:
        """Wait until so many runs of the queue are in a status."""
        await self.stage.until(lambda: len(self.rows(status)) == count)

    async def nothing_more_begins(self) -> None:
        """Have the dispatcher look twice more than it would have to."""
        engine = self.app.raw._engine  # noqa: SLF001 -- a look is not part of anybody's interface
        for _ in range(2):
            engine.work_released()
            await self.stage.pause(0.15)


async def results(handles: list[Handle]) -> list[Any]:
    """Wait for all, in order."""
    return [await handle.result() for handle in handles]
