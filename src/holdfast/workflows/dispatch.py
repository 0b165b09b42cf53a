"""Claiming work from the internal queue: what was released, handed over or delayed, for functions this process has."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from holdfast import faults
from holdfast.errors import DatabaseError, SerializationError
from holdfast.model.workflow import INTERNAL_QUEUE, History, Recorded, WorkflowStatus
from holdfast.workflows.release import Releases
from holdfast.workflows.results import exhausted
from holdfast.workflows.run import Run
from holdfast.workflows.trial import Trial, is_suspect

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.db.manager import ConnectionManager
    from holdfast.db.queries import Queries
    from holdfast.db.session import Row, Transaction
    from holdfast.model.world import World
    from holdfast.workflows.beats import Identity
    from holdfast.workflows.deadlines import Deadlines
    from holdfast.workflows.parking import Wakes
    from holdfast.workflows.permit import Permit
    from holdfast.workflows.registry import Registry
    from holdfast.workflows.runner import Runner

logger = logging.getLogger("holdfast.dispatch")

_AT_ONCE = 200
_LONGEST_WAIT = 2.5


class Dispatch:
    """Polls the queue, soon after it was woken and seldom at rest, and launches what it claims."""

    def __init__(
        self,
        identity: Identity,
        versions: Sequence[str],
        manager: ConnectionManager,
        queries: Queries,
        registry: Registry,
        runner: Runner,
        permit: Permit,
        world: World,
        own: Callable[[Run], None],
        deadlines: Deadlines,
        wakes: Wakes,
        *,
        capacity: int,
    ) -> None:
        self._identity = identity
        self._versions = msgspec.json.encode(list(versions)).decode()
        self._manager = manager
        self._queries = queries
        self._registry = registry
        self._runner = runner
        self._permit = permit
        self._world = world
        self._own = own
        self._deadlines = deadlines
        self._wakes = wakes
        self._timers: set[asyncio.Task[None]] = set()
        self._capacity = capacity
        self._releases = Releases(manager, queries)
        self._trial = Trial(world, identity.lease)
        self._woken = asyncio.Event()
        self._stopping = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look for work; on the loop."""
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._run(), name="holdfast-dispatch")

    async def stop(self) -> None:
        """Claim nothing more. A claim under way ends first, so that nothing is owned and forgotten."""
        if self._task is not None:
            self._stopping = True
            self._woken.set()
            await self._task
            for timer in list(self._timers):
                timer.cancel()
            await asyncio.gather(*self._timers, return_exceptions=True)

    def wake(self) -> None:
        """Look now; on the loop."""
        self._woken.set()

    def wake_in(self, seconds: float) -> None:
        """Look when so much time has passed: something becomes due then; on the loop."""
        timer = self._loop.create_task(self._wake_later(seconds), name="holdfast-due")
        self._timers.add(timer)
        timer.add_done_callback(self._timers.discard)

    async def _wake_later(self, seconds: float) -> None:
        await self._world.sleep(seconds)
        self.wake()

    def _wake_from_anywhere(self) -> None:
        with suppress(RuntimeError):  # the loop was closed: nobody looks for work any more
            self._loop.call_soon_threadsafe(self.wake)

    async def _run(self) -> None:
        wait = 0.05
        while not self._stopping:
            self._woken.clear()
            claimed = 0
            try:
                claimed = await self._look()
            except DatabaseError as error:
                logger.warning("Looking for work failed and is tried again: %s", error)
            except Exception:
                # The service loop: what was claimed and not begun is handed back by the beat, the rest goes on.
                logger.exception("Looking for work failed and is tried again.")
            if claimed < _AT_ONCE:
                wait = 0.05 if claimed else min(_LONGEST_WAIT, wait * 2)
                if await self._woken_within(wait):
                    wait = 0.05

    async def _woken_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return False
        return True

    async def _look(self) -> int:
        """Claim once, as much as there is room for; return how many were claimed and begun."""
        await self._clear_survivor()
        room = min(_AT_ONCE, self._capacity - len(self._runner.running))
        if room <= 0 or self._trial.is_on() or not self._permit.is_valid() or not self._registry.workflows:
            return 0
        found = await self._manager.fetchone(self._queries["queue_waiting"], queue_name=INTERNAL_QUEUE)
        if found is not None and found["overdue"]:
            await self._deadlines.sweep()
        self._wakes.any = found is not None and bool(found["parked"])
        if self._wakes.any and await self._wakes.sweep():
            found = {"waiting": 1}
        if found is None or not found["waiting"]:
            return 0
        await self._manager.execute(self._queries["runs_due"])
        idle = not self._runner.running
        caps = {name: each.max_recovery_attempts for name, each in self._registry.workflows.items()}
        claimed = await self._claim(room, caps, suspects=self._trial.takes_suspects(idle=idle))
        if not claimed:
            return 0
        faults.point("run.claimed")
        rows, back = self._trial.sort(claimed, caps, idle=idle)
        if back:
            await self._releases.hand_back([(row["workflow_uuid"], row["owner_xid"]) for row in back])
        histories = await self._histories([row["workflow_uuid"] for row in rows if row["executions"] > 1])
        faults.point("run.loaded")
        for row in rows:
            await self._launch(row, histories.get(row["workflow_uuid"]), caps[row["name"]])
        return len(rows)

    async def _clear_survivor(self) -> None:
        run = self._trial.cleared()
        if run is not None:
            query = self._queries["runs_progressed"]

            async def work(transaction: Transaction) -> None:
                await transaction.execute_batch(query, [(run.id, run.token)])

            await self._manager.run(work)

    async def _claim(self, most: int, caps: dict[str, int], *, suspects: bool) -> list[Row]:
        return await self._manager.fetch(
            self._queries["runs_claim"],
            claim=self._world.new_id(),
            incarnation=self._identity.incarnation,
            executor_id=self._identity.executor_id,
            application_version=self._identity.application_version,
            versions=self._versions,
            caps=msgspec.json.encode(caps | dict.fromkeys(self._registry.owners(), 0)).decode(),
            queue_name=INTERNAL_QUEUE,
            most=most,
            suspects=int(suspects),
        )

    async def _histories(self, ids: list[str]) -> dict[str, History]:
        query = self._queries["steps_of_runs"]

        async def work(transaction: Transaction) -> list[Row]:
            return await transaction.fetch_batch(query, [(each,) for each in ids])

        histories = {each: History() for each in ids}
        for row in await self._manager.run(work) if ids else ():
            history = histories[row["workflow_uuid"]]
            history.records[row["identity"]] = Recorded(
                row["function_id"],
                row["function_name"],
                row["fingerprint"],
                row["output"],
                row["error"],
                row["child_workflow_id"],
                row["serialization"],
            )
            history.next_position = max(history.next_position, row["function_id"] + 1)
        return histories

    async def _give_up(self, row: Row) -> None:
        """Write the cause beside the status, for whoever looks at the run later."""
        error = exhausted(row["workflow_uuid"], row["recovery_attempts"], row["executor_id"])
        logger.error("%s", error)
        text, format_ = self._runner.payloads.dump_error(error)
        await self._manager.execute(
            self._queries["run_exhausted"],
            id=row["workflow_uuid"],
            token=row["owner_xid"],
            error=text,
            serialization=format_,
        )

    async def _launch(self, row: Row, history: History | None, cap: int) -> None:
        if row["status"] == WorkflowStatus.MAX_RECOVERY_ATTEMPTS_EXCEEDED:
            await self._give_up(row)
            return
        definition = self._registry.workflows[row["name"]]
        run = Run(
            definition,
            row["workflow_uuid"],
            row["owner_xid"],
            (),
            {},
            history=history,
            attempts=row["recovery_attempts"],
            generation=row["generation"],
            retries=row["retries"],
            parent_id=row["parent_workflow_id"],
            deadline_ms=row["workflow_deadline_epoch_ms"],
        )
        self._own(run)
        try:
            run.arguments, run.keywords = definition.codec.load_call(row["inputs"], row["serialization"])
            run.instance = self._registry.bound_to(definition, row["class_name"], row["config_name"])
        except (SerializationError, LookupError) as error:
            logger.error("Run %s cannot be begun: %s", run.id, error)  # noqa: TRY400 -- told to whoever waits, not a bug
            await self._runner.fail(run, error)
            return
        if is_suspect(run.attempts, cap):
            logger.warning("Run %s is tried alone: %s executors died with it.", run.id, run.attempts)
            self._trial.begin(run, self._wake_from_anywhere)
        self._runner.launch(run)
