"""Where the ownership protocol is tried: a database, worker processes, and a ledger of effects outside of it."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from typing import TYPE_CHECKING, Any

from holdfast.db import ConnectionManager, DialectName
from holdfast.testing.effects import Effects
from holdfast.testing.workers import Worker, until

if TYPE_CHECKING:
    from contextlib import ExitStack
    from pathlib import Path

    from holdfast.testing.nursery import Nursery


class Stage:
    """One database, a ledger of effects outside of it, and the workers that share both, born in the *nursery*."""

    def __init__(
        self, program: Path, url: str, ledger: Path, afterwards: ExitStack, nursery: Nursery | None = None
    ) -> None:
        self.url = url
        self._program = program
        self.ledger = Effects(ledger)
        self._ledger = ledger
        self._afterwards = afterwards
        self._nursery = nursery

    def worker(self, colour: str = "async", *, url: str | None = None, **settings: Any) -> Worker:
        """Start a worker; it has not launched yet."""
        settings |= {"colour": colour, "url": url or self.url, "ledger": str(self._ledger)}
        worker = Worker(self._program, self._nursery, **settings)
        return self._afterwards.enter_context(worker)

    def ready(self, colour: str = "async", **settings: Any) -> Worker:
        """Start a worker and wait until it has launched."""
        worker = self.worker(colour, **settings)
        worker.hear("ready")
        return worker

    def pause(self, worker: Worker) -> None:
        """SIGSTOP, and wait until it stands still: while none of its threads holds SQLite's only lock.

        Everybody would wait for it there. A server ends the transaction of one who says nothing for a lease.
        """

        def paused() -> bool:
            worker.pause()
            until(lambda: worker.is_paused() or not worker.alive)
            if not self.url.startswith("sqlite") or self._nobody_writes():
                return True
            worker.wake()
            return False

        until(paused)

    def _nobody_writes(self) -> bool:
        connection = sqlite3.connect(self.url.removeprefix("sqlite:///"), timeout=0.2, isolation_level=None)
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        finally:
            connection.close()
        return True

    def fetch(self, sql: str, *args: Any) -> list[dict[str, Any]]:
        """Read with plain SQL; ``{runs}``, ``{steps}`` and ``{executors}`` stand for the tables."""
        rows: list[dict[str, Any]] = asyncio.run(self._do("fetch", sql, args))
        return rows

    def execute(self, sql: str, *args: Any) -> int:
        """Write with plain SQL, behind the engine's back."""
        return int(asyncio.run(self._do("execute", sql, args)))

    async def _do(self, verb: str, sql: str, args: tuple[Any, ...]) -> Any:
        async with ConnectionManager(self.url) as manager:
            schema = "holdfast." if manager.dialect is DialectName.POSTGRES else ""
            text = sql.format(
                runs=f"{schema}workflow_status",
                steps=f"{schema}operation_outputs",
                executors=f"{schema}executors",
            )
            return await getattr(manager, verb)(text, *args)

    def run(self, run_id: str) -> dict[str, Any]:
        """Return the row of a run."""
        [row] = self.fetch("SELECT * FROM {runs} WHERE workflow_uuid = ?", run_id)
        return row

    def statuses(self) -> dict[str, str]:
        """Return the status of every run by its id."""
        return {row["workflow_uuid"]: row["status"] for row in self.fetch("SELECT workflow_uuid, status FROM {runs}")}

    def all_ended(self) -> bool:
        """Whether there are runs, and all of them have succeeded."""
        statuses = self.statuses()
        return bool(statuses) and set(statuses.values()) == {"SUCCESS"}

    def until_quiet(self, seconds: float) -> None:
        """Wait until nothing has happened outside for so long."""
        last, since = -1, 0.0

        def quiet() -> bool:
            nonlocal last, since
            now = len(self.ledger.all())
            if now != last:
                last, since = now, time.monotonic()
            return time.monotonic() - since > seconds

        until(quiet)

    def check_record(self, *, woken: bool = False) -> None:
        """Check the record against the ledger.

        One record an identity; every recorded step had its effect, never twice in one execution; and no execution that
        came after the one that recorded a step had its effect again. With *woken* a stale execution may have had it
        late, which nothing can prevent; else the last to have had it is the one that recorded it.
        """
        records = self.fetch("SELECT workflow_uuid, identity, function_name, owner_xid, child_workflow_id FROM {steps}")
        assert records
        recorders = {(row["workflow_uuid"], row["identity"]): row["owner_xid"] for row in records}
        assert len(recorders) == len(records)
        had: dict[tuple[str, str], list[str]] = {}
        for effect in self.ledger.all():
            _, step, identity = effect.what.partition("@")
            if step:
                had.setdefault((effect.run_id, identity), []).append(effect.token)
        for row in records:
            key = (row["workflow_uuid"], row["identity"])
            own = row["function_name"].startswith("holdfast.") or row["child_workflow_id"] is not None
            assert own or key in had, f"{key} is recorded and never happened"
        for key, tokens in had.items():
            assert len(tokens) == len(set(tokens)), f"{key} happened twice in one execution"
            if key in recorders:
                last = max(tokens) if woken else tokens[-1]  # tokens begin with a time-ordered id
                assert last == recorders[key], f"{key} happened again after it was recorded"
