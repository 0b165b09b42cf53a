"""Where the suites of schedules play: an application with a workflow that notes when it was called, and a clock."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from holdfast.db.session import Row
    from holdfast.model.schedule import Schedule
    from holdfast.testing.contract.workflows_stage import App, Flow, Gate, Stage

HOURLY = "0 * * * *"
HOUR = timedelta(hours=1)


class Calendar:
    """An application whose workflow notes its calls, on a database whose clock the test sets.

    Schedules are deleted afterwards: the next test's application would fire them.
    """

    def __init__(self, stage: Stage, gate: Gate | None = None) -> None:
        self.stage = stage
        self.name = f"sched{stage.version}"
        self.calls: list[tuple[datetime, Any]] = []
        self._gate = gate
        stage.set_clock(0)
        self.app, self.flow = self.another()

    def another(self, **settings: Any) -> tuple[App, Flow]:
        """Return a further application with the same workflow."""
        app = self.stage.app(**settings)

        async def note(scheduled_at: datetime, context: Any) -> str:
            self.calls.append((scheduled_at, context))
            if self._gate is not None:
                await self._gate()
            return scheduled_at.isoformat()

        return app, app.workflow(note, name=f"note-{self.stage.version}")

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Launch; its version is the latest, whatever other tests have left behind."""
        try:
            async with self.app:
                await self.app.do("set_latest_application_version", self.stage.version)
                yield
                self.forget()
        finally:
            self.forget()

    def forget(self) -> None:
        """Delete all schedules."""
        self.stage.execute(f"DELETE FROM {self.table}")

    @property
    def table(self) -> str:
        return self.stage.table("workflow_schedules")

    async def create(self, schedule: str = HOURLY, name: str | None = None, **said: Any) -> Schedule:
        made: Schedule = await self.app.do("create_schedule", name or self.name, self.flow.raw, schedule, **said)
        return made

    async def get(self, name: str | None = None) -> Schedule:
        found: Schedule | None = await self.app.do("get_schedule", name or self.name)
        assert found is not None
        return found

    async def due(self) -> datetime:
        """Return the next slot."""
        moment = (await self.get()).next_due_at
        assert moment is not None
        return moment

    def jump(self, moment: datetime, *apps: App) -> None:
        """Set the database's clock, and have the applications look."""
        self.stage.set_clock(moment.timestamp() - time.time())
        for app in apps or (self.app,):
            app.raw._engine.work_released()  # noqa: SLF001 -- a look is not part of anybody's interface

    def row(self, name: str | None = None) -> Row:
        """Return the row of a schedule."""
        [row] = self.stage.rows(f"SELECT * FROM {self.table} WHERE schedule_name = ?", name or self.name)
        return row

    def runs(self, name: str | None = None) -> list[Row]:
        """Return the runs of a schedule's slots, by slot."""
        return self.stage.rows(
            f"SELECT * FROM {self.stage.table('workflow_status')} WHERE workflow_uuid LIKE ? ORDER BY workflow_uuid",
            f"sched-{name or self.name}-2%",
        )

    def slots(self) -> list[str]:
        """Return the slots that have fired."""
        return [row["workflow_uuid"].removeprefix(f"sched-{self.name}-") for row in self.runs()]

    async def moved_past(self, moment: datetime) -> None:
        """Wait until whatever was due until then has been decided about."""
        milliseconds = int(moment.timestamp() * 1000)
        await self.stage.until(lambda: (self.row()["next_due_epoch_ms"] or 0) > milliseconds)

    async def ended(self, count: int) -> None:
        """Wait until so many runs of slots have ended."""
        await self.stage.until(lambda: [row["status"] for row in self.runs()].count("SUCCESS") == count)


def written(moment: datetime) -> str:
    """Return a slot as it stands in ids and in the table."""
    return moment.astimezone(UTC).isoformat(timespec="seconds")
