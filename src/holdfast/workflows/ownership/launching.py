"""From a row that was claimed to a run under way: its history is read, its arguments are loaded, and it is begun."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from holdfast import faults
from holdfast.errors import SerializationError
from holdfast.model.workflow import History, Recorded
from holdfast.workflows.operations.operation import OF_OTHERS
from holdfast.workflows.ownership.release import Releases
from holdfast.workflows.ownership.trial import is_suspect
from holdfast.workflows.running.run import Behalf, Run

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from holdfast.db.queries.queries import Queries
    from holdfast.db.session import Row
    from holdfast.workflows.declaring.registry import Registry
    from holdfast.workflows.ownership.burden import Burden
    from holdfast.workflows.ownership.trial import Trial
    from holdfast.workflows.queues import QueueStore
    from holdfast.workflows.running.run import Outcome
    from holdfast.workflows.running.runner import Runner

logger = logging.getLogger("holdfast.dispatch")


class Launching:
    """Begins what was claimed. *own* makes a run one of the engine's; *over* is called when the one on trial ends.

    *taken_over* is called, before they go on, with the ids and tokens of runs that were executed before; *give_up* with
    the rows of those that are over their cap, and are not begun. *burden* says what fits into this process.
    """

    def __init__(
        self,
        queues: QueueStore,
        queries: Queries,
        registry: Registry,
        runner: Runner,
        trial: Trial,
        burden: Burden,
        *,
        own: Callable[[Run], None],
        over: Callable[[], None],
        taken_over: Callable[[Sequence[tuple[str, str]]], Awaitable[None]],
        give_up: Callable[[Row], Awaitable[None]],
    ) -> None:
        self._manager = queues.manager
        self._queries = queries
        self._registry = registry
        self._runner = runner
        self._own = own
        self._trial = trial
        self._over = over
        self._taken_over = taken_over
        self._give_up = give_up
        self._burden = burden
        self._of_queues = queues.queries
        self._releases = Releases(queues.manager, queries)

    async def begin(
        self, claimed: Sequence[Row], caps: Mapping[str, int], *, idle: bool, begun: Callable[[Run], None]
    ) -> int:
        """Begin what was claimed, in this order, one suspect at most; tell *begun* of each, and return how many.

        What is not begun because of an error is held by nobody here: the next beat hands it back.
        """
        faults.point("run.claimed")
        over = [row for row in claimed if row["recovery_attempts"] > caps[row["name"]]]
        rows, back = self._trial.sort([row for row in claimed if row not in over], caps, idle=idle)
        sizes = await self._weighed(rows)
        held = {id_: size for id_, size in sizes.items() if self._burden.take(size)}  # for what is not under way yet
        count = 0
        try:
            back += [row for row in rows if row["workflow_uuid"] not in held]
            if back:
                runs = [(row["workflow_uuid"], row["owner_xid"]) for row in back]
                await self._releases.hand_back(runs, self._of_queues["starts_take_back"])
            fitting = [row for row in rows if row["workflow_uuid"] in held]
            histories = await self._taken_up(fitting)
            faults.point("run.loaded")
            for row in fitting:
                run = await self._launch(await self._whole(row), histories.get(row["workflow_uuid"]), caps[row["name"]])
                if run is not None:
                    run.watch(partial(self._given_back, held.pop(run.id)))
                    begun(run)
                    count += 1
        finally:
            for size in held.values():
                self._burden.give_back(size)
        for row in over:
            await self._give_up(await self._whole(row))
        return count

    def _given_back(self, size: int, _: Outcome) -> None:
        self._burden.give_back(size)

    async def _taken_up(self, rows: Sequence[Row]) -> dict[str, History]:
        """Return what was recorded of those that were executed before, and take them over."""
        before = [(row["workflow_uuid"], row["owner_xid"]) for row in rows if row["executions"] > 1]
        histories = await self._histories([run_id for run_id, _ in before])
        if before:
            await self._taken_over(before)
        return histories

    async def _weighed(self, rows: Sequence[Row]) -> dict[str, int]:
        """Return about how many bytes each run will hold: its arguments and what it has recorded."""
        sizes = {row["workflow_uuid"]: row["inputs_bytes"] or 0 for row in rows}
        ids = [(row["workflow_uuid"],) for row in rows if row["executions"] > 1]
        for row in await self._manager.fetch_batch(self._of_queues["records_bytes"], ids):
            sizes[row["workflow_uuid"]] += int(row["bytes"])
        return sizes

    async def _whole(self, row: Row) -> Row:
        """Return a claimed row with its arguments: long ones do not come with the claim."""
        if row["inputs"] is not None or row["inputs_bytes"] is None:
            return row
        found = await self._manager.fetchone(self._of_queues["inputs_of_run"], id=row["workflow_uuid"])
        return row if found is None else {**row, **found}

    async def _histories(self, ids: list[str]) -> dict[str, History]:
        histories = {each: History() for each in ids}
        wanted = [(each,) for each in ids]
        for row in await self._manager.fetch_batch(self._queries["steps_of_runs"], wanted):
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

    def _check_readable(self, history: History | None) -> None:
        """Raise ``SerializationError`` if what a run has recorded cannot be opened here: a key is missing, say.

        Otherwise its code would get that error in place of an outcome, and go on as if a step had failed that has
        succeeded. One record of each marker is tried. Messages and events are left out: another process wrote them,
        and code that could not open one was told so when it first got it.
        """
        records = () if history is None else history.records.values()
        own = {(each.serialization, each.error is None): each for each in records if each.name not in OF_OTHERS}
        for each in own.values():
            self._runner.payloads.check_readable(each)

    async def _launch(self, row: Row, history: History | None, cap: int) -> Run | None:
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
            queue_name=row["queue_name"],
            creation_key=row["creation_key"] or "",
            behalf=Behalf(row["authenticated_user"], row["assumed_role"], row["authenticated_roles"]),
            version=row["application_version"],
        )
        self._own(run)
        try:
            self._check_readable(history)
            run.arguments, run.keywords = definition.codec.load_call(row["inputs"], row["serialization"])
            run.instance = self._registry.bound_to(definition, row["class_name"], row["config_name"])
        except (SerializationError, LookupError) as error:
            logger.error("Run %s cannot be begun: %s", run.id, error)  # noqa: TRY400 -- told to whoever waits, not a bug
            await self._runner.fail(run, error)
            return None
        if is_suspect(run.attempts, cap):
            logger.warning("Run %s is tried alone: %s executors died with it.", run.id, run.attempts)
            self._trial.begin(run, self._over)
        self._runner.launch(run)
        return run
