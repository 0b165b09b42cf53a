"""Rows of runs put into the tables by plain SQL, behind the engine's back: for tests of what is done to runs."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.db import DialectName
from holdfast.model.workflow import WorkflowStatus
from holdfast.model.world import RealWorld
from holdfast.workflows.control import Control, control_queries
from holdfast.workflows.queries import workflow_queries
from holdfast.workflows.queues import queue_queries

if TYPE_CHECKING:
    from holdfast.db import ConnectionManager
    from holdfast.db.session import Row, Transaction

LONG_AGO = 1_000_000
LONG_FROM_NOW = 10_000_000_000_000


class RunRows:
    """The runs of a migrated database, and the code that changes them, over one connection manager."""

    def __init__(self, manager: ConnectionManager) -> None:
        self.manager = manager
        self.queries = workflow_queries(manager.dialect, "holdfast")
        self.queues = queue_queries(manager.dialect, "holdfast")
        self.control = Control(manager, control_queries(manager.dialect, "holdfast"), RealWorld())
        schema = "holdfast." if manager.dialect is DialectName.POSTGRES else ""
        self.runs = f"{schema}workflow_status"
        self.operations = f"{schema}operation_outputs"

    async def insert(
        self, status: WorkflowStatus = WorkflowStatus.PENDING, run_id: str = "", *, steps: int = 0, **columns: Any
    ) -> str:
        """Make a run as the engine leaves one in *status*: some have a token, some a place in a queue; return its id.

        It has *steps* records, and *columns* stand in the place of its own.
        """
        run_id = run_id or f"run-{secrets.token_hex(12)}"
        row = self._row(status, run_id) | columns
        marks = ", ".join("?" * len(row))
        await self.manager.execute(f"INSERT INTO {self.runs} ({', '.join(row)}) VALUES ({marks})", *row.values())
        for position in range(1, steps + 1):
            await self.manager.execute(
                f"INSERT INTO {self.operations} (workflow_uuid, function_id, function_name, identity, owner_xid) "
                "VALUES (?, ?, 'step', ?, ?)",
                run_id,
                position,
                str(position - 1),
                self.token(run_id),
            )
        return run_id

    async def claim_from(self, name: str, cap: int = 100, *, transaction: Transaction | None = None) -> list[Row]:
        """Claim from the queue *name*, as from one without limits, runs of the function *name*."""
        return await (transaction or self.manager).fetch(
            self.queues["queue_claim"],
            unlimited=True,
            claim=f"claim-{secrets.token_hex(4)}",
            incarnation="claimer",
            executor_id="claimer",
            application_version="v",
            versions='["v"]',
            caps=msgspec.json.encode({name: cap}).decode(),
            queue_name=name,
            most=10,
            suspects=1,
        )

    def token(self, run_id: str) -> str:
        """Return the token of a run that has one; as long as a claim makes it."""
        return f"0190a0a0-0000-7000-8000-000000000000.{run_id}"

    async def row(self, run_id: str) -> Row | None:
        """Return the row of a run, or None."""
        return await self.manager.fetchone(f"SELECT * FROM {self.runs} WHERE workflow_uuid = ?", run_id)

    async def status(self, run_id: str) -> str | None:
        """Return the status of a run, or None."""
        row = await self.row(run_id)
        return None if row is None else row["status"]

    async def steps(self, run_id: str) -> list[Row]:
        """Return the records of a run in the order of their positions."""
        return await self.manager.fetch(
            f"SELECT * FROM {self.operations} WHERE workflow_uuid = ? ORDER BY function_id", run_id
        )

    async def write(self, kind: Any, *row: Any) -> Any:
        """Write one fact of the pipeline in a transaction of its own; return its outcome."""
        [outcome] = await self.manager.run(lambda transaction: kind.apply(transaction, [row]))
        return outcome

    def _row(self, status: WorkflowStatus, run_id: str) -> dict[str, Any]:
        ended = status.has_ended
        owned = status is WorkflowStatus.PENDING or (ended and status is not WorkflowStatus.CANCELLED)
        return {
            "workflow_uuid": run_id,
            "status": status.value,
            "name": run_id,
            "inputs": "{}",
            "serialization": "portable_json",
            "output": "1" if status is WorkflowStatus.SUCCESS else None,
            "error": "{}" if status is WorkflowStatus.ERROR else None,
            "output_serialization": "portable_json" if ended else None,
            "created_at": LONG_AGO,
            "updated_at": LONG_AGO,
            "started_at_epoch_ms": LONG_AGO,
            "completed_at": LONG_AGO if ended else None,
            "owner_xid": self.token(run_id) if owned else None,
            "incarnation": f"gone-{run_id}" if owned else None,
            "executions": 0 if status is WorkflowStatus.DELAYED else 1,
            "creation_key": self.token(run_id),
            "generation": 1,
            "retries": 1,
            "queue_name": None if status is WorkflowStatus.CANCELLED else run_id,
            "deduplication_id": None if ended else "only one",
            "recovery_attempts": 3,
            "delay_until_epoch_ms": LONG_AGO if status is WorkflowStatus.DELAYED else None,
            "workflow_timeout_ms": 60_000,
            "workflow_deadline_epoch_ms": LONG_FROM_NOW,
            "change_key": "an earlier change",
        }
