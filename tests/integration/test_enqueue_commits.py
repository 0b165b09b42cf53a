"""Enqueueing when the reply of a commit is lost (I9), or the workflow that does it has been superseded (I1)."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.db import ConnectionManager, Pipeline
from holdfast.db.migrations.migrator import SCHEMA, Migrator
from holdfast.errors import Deduplicated, Superseded, Unavailable, UnknownCommit, WorkflowConflict
from holdfast.model.workflow import StartOptions, WorkflowStatus
from holdfast.model.world import RealWorld
from holdfast.serialize import Serialization
from holdfast.testing.run_rows import RunRows
from holdfast.workflows.dispatch_state import DispatchState, DispatchStates, dispatch_state_queries
from holdfast.workflows.enqueueing.debounce import PutOff, debounced
from holdfast.workflows.enqueueing.facts import PutAll, PutByWorkflow, put_durably
from holdfast.workflows.enqueueing.rows import Entry, Work, entry
from holdfast.workflows.facts import EnqueueRuns, RecordSteps
from holdfast.workflows.looking import Transfer, looking_queries
from holdfast.workflows.messaging import Message, messaging_queries
from holdfast.workflows.messaging.outside import Outside
from holdfast.workflows.parking import parking_queries
from holdfast.workflows.payloads import Payloads
from holdfast.workflows.queues import QueueStore, queue_queries
from holdfast.workflows.schedules import Schedules, schedule_queries
from holdfast.workflows.schedules.settings import ScheduleSpec, wanted

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.db.session import Row

KINDS = ["sqlite", "postgres", "mariadb"]
WORLD = RealWorld()


class Hasty(RealWorld):
    """A world in which waiting takes no time."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds * 0)


class Forgetful(ConnectionManager):
    """Loses the reply of a commit, once, after it happened (``lost = "after"``) or instead of it (``"before"``).

    After that it is away for so many calls.
    """

    lost = ""
    away = 0

    async def run(self, work: Any, *, isolation: str | None = None) -> Any:
        lost, self.lost = self.lost, ""
        if not lost and self.away:
            self.away -= 1
            raise Unavailable("The database is away.")
        if lost == "before":
            raise UnknownCommit("The connection broke during the commit.")
        found = await super().run(work, isolation=isolation)
        if lost == "after":
            raise UnknownCommit("The connection broke during the commit.")
        return found


class Desk:
    """A migrated database, and what enqueues in it."""

    def __init__(self, manager: Forgetful) -> None:
        self.manager = manager
        self.rows = RunRows(manager)
        self.payloads = Payloads(Serialization())
        self.enqueue = EnqueueRuns(self.rows.queries, application_id="test")
        self.all = PutAll(self.enqueue)
        self.queue = f"queue-{secrets.token_hex(6)}"

    def work(self, *arguments: Any, **options: Any) -> Work:
        chosen = StartOptions(**{"queue_name": self.queue, **options})
        return Work("nobody", None, None, arguments, {}, chosen, self.payloads.plain)

    def entry(self, *arguments: Any, **options: Any) -> Entry:
        return entry(self.payloads, WORLD.new_id, self.work(*arguments, **options))

    def put_off(self, period: float = 60) -> PutOff:
        return PutOff(self.enqueue, self.rows.queries, period, None)

    def debounced(self, *arguments: Any) -> Entry:
        return entry(self.payloads, WORLD.new_id, debounced(self.work(*arguments), "key", 60))

    def by_workflow(self, put: Any = None) -> PutByWorkflow:
        return PutByWorkflow(RecordSteps(self.rows.queries), put or self.all, self.rows.queries, self.payloads)

    def record(self, run: str, entries: list[Entry], *, together: bool = False, token: str = "") -> Any:
        """Return the row of a workflow's operation that enqueues *entries*."""
        ids = [each.row[0] for each in entries]
        output, format_ = self.payloads.dump(ids) if together else (None, None)
        child = None if together else ids[0]
        step = (run, token or self.rows.token(run), 1, "enqueue", "0", "mark", output, None, child, format_, 0)
        return step, entries

    async def waiting(self) -> list[Row]:
        sql = f"SELECT * FROM {self.rows.runs} WHERE queue_name = ? ORDER BY workflow_uuid"
        return await self.manager.fetch(sql, self.queue)

    async def apply(self, kind: PutByWorkflow, *rows: Any) -> Any:
        return await self.manager.run(lambda transaction: kind.apply(transaction, rows))

    async def recall(self, kind: PutByWorkflow, *rows: Any) -> Any:
        return await self.manager.run(lambda transaction: kind.recall(transaction, rows))


@pytest.fixture(params=KINDS)
def at_desk(request: pytest.FixtureRequest, fresh_database: Callable[[str], str]) -> Callable[..., None]:
    """Call with a scene at a desk."""
    url = fresh_database(request.param)

    def run(scene: Callable[[Desk], Awaitable[None]]) -> None:
        async def play() -> None:
            async with Forgetful(url) as manager:
                await Migrator(manager).migrate()
                await scene(Desk(manager))

        asyncio.run(play())

    return run


@pytest.mark.parametrize("lost", ["before", "after"])
def test_many_whose_reply_is_lost_are_enqueued_once(at_desk: Callable[..., None], lost: str) -> None:
    async def scene(desk: Desk) -> None:
        first = desk.entry(0, deduplication_id="once")
        await put_durably(desk.manager, Hasty(), desk.all, [first])
        same = desk.entry(1, deduplication_id="once", on_duplicate="return_existing")
        wanted = [desk.entry(2), same, desk.entry(3)]
        desk.manager.lost = lost
        found = await put_durably(desk.manager, Hasty(), desk.all, wanted)
        assert found == [wanted[0].row[0], first.row[0], wanted[2].row[0]]
        assert len(await desk.waiting()) == 3

    at_desk(scene)


@pytest.mark.parametrize("lost", ["before", "after"])
def test_debounced_call_whose_reply_is_lost_happens_once(at_desk: Callable[..., None], lost: str) -> None:
    async def scene(desk: Desk) -> None:
        first = desk.debounced(1)
        desk.manager.lost = lost
        assert await put_durably(desk.manager, Hasty(), desk.put_off(), [first]) == [first.row[0]]
        second = desk.debounced(2)
        desk.manager.lost = lost
        assert await put_durably(desk.manager, Hasty(), desk.put_off(), [second]) == [first.row[0]]
        [row] = await desk.waiting()
        assert row["inputs"] == second.row[5]
        assert (row["status"], row["change_key"], bool(row["is_debounced"])) == ("DELAYED", second.row[7], True)

    at_desk(scene)


@pytest.mark.parametrize("delay", [None, 60])
def test_key_that_is_no_debounced_runs_is_refused(at_desk: Callable[..., None], delay: float | None) -> None:
    async def scene(desk: Desk) -> None:
        await put_durably(desk.manager, WORLD, desk.all, [desk.entry(1, deduplication_id="nobody/key", delay=delay)])
        with pytest.raises(Deduplicated):
            await put_durably(desk.manager, WORLD, desk.put_off(), [desk.debounced(2)])

    at_desk(scene)


def test_reply_that_stays_lost_is_an_unknown_commit(at_desk: Callable[..., None]) -> None:
    class Away(Forgetful):
        async def run(self, work: Any, *, isolation: str | None = None) -> Any:
            raise UnknownCommit(f"No reply to {work}, at {isolation}.")

    async def scene(desk: Desk) -> None:
        away = Away(str(desk.manager.settings.url.safe))
        with pytest.raises(UnknownCommit):
            await put_durably(away, Hasty(), desk.all, [desk.entry(1)])

    at_desk(scene)


@pytest.mark.parametrize("lost", ["before", "after"])
def test_database_that_is_away_after_a_lost_reply_is_waited_for(at_desk: Callable[..., None], lost: str) -> None:
    async def scene(desk: Desk) -> None:
        wanted = [desk.entry(1), desk.entry(2)]
        desk.manager.lost, desk.manager.away = lost, 3
        assert await put_durably(desk.manager, Hasty(), desk.all, wanted) == [each.row[0] for each in wanted]
        assert len(await desk.waiting()) == 2
        # That nothing could be sent now says nothing about the commit before.
        desk.manager.lost, desk.manager.away = lost, 100
        with pytest.raises(UnknownCommit):
            await put_durably(desk.manager, Hasty(), desk.all, [desk.entry(3)])

    at_desk(scene)


@pytest.mark.parametrize("lost", ["before", "after"])
def test_what_is_sent_set_or_imported_before_the_database_goes_away_is_in_doubt(
    at_desk: Callable[..., None], lost: str
) -> None:
    async def scene(desk: Desk) -> None:
        manager, place, world = desk.manager, (desk.manager.dialect, SCHEMA), Hasty()
        queues = QueueStore(manager, queue_queries(*place), world)
        outside = Outside(
            manager, messaging_queries(*place), parking_queries(*place), desk.payloads, world, lambda: False
        )
        schedules = Schedules(queues, schedule_queries(*place), desk.payloads, world, desk.enqueue)
        spec = wanted(ScheduleSpec("nightly", "nobody", "@daily"))
        state = DispatchState(
            service_name="s", workflow_fn_name="f", key="k", value="v", update_seq=None, update_time=None
        )
        run = await desk.rows.insert(WorkflowStatus.SUCCESS)
        transfer = Transfer(manager, looking_queries(*place), world)
        document = await transfer.export(run)
        for change in (
            lambda: outside.send([Message(run, 1)]),
            lambda: queues.register("orders", {}),
            lambda: schedules.create([spec]),
            lambda: DispatchStates(manager, dispatch_state_queries(*place), world).put(state),
            lambda: transfer.import_(document, workflow_id=secrets.token_hex(8)),
        ):
            manager.lost, manager.away = lost, 2
            await change()
            manager.lost, manager.away = lost, 100
            with pytest.raises(UnknownCommit):
                await change()
            manager.away = 0

    at_desk(scene)


def test_superseded_workflow_enqueues_nothing(at_desk: Callable[..., None]) -> None:
    async def scene(desk: Desk) -> None:
        run = await desk.rows.insert(WorkflowStatus.PENDING)
        other = await desk.rows.insert(WorkflowStatus.PENDING)
        lost = desk.record(run, [desk.entry(1)], token="another")
        kept = desk.record(other, [desk.entry(2), desk.entry(3)], together=True)
        outcomes = await desk.apply(desk.by_workflow(), lost, kept)
        assert isinstance(outcomes[0], Superseded)
        assert outcomes[1] == [each.row[0] for each in kept[1]]
        assert {row["workflow_uuid"] for row in await desk.waiting()} == set(outcomes[1])
        assert await desk.rows.steps(run) == []
        assert await desk.recall(desk.by_workflow(), lost, kept) == [None, outcomes[1]]

    at_desk(scene)


def test_commit_that_lands_late_decides_what_its_repetition_says(at_desk: Callable[..., None]) -> None:
    """The first attempt found the deduplication id taken; when it is tried again the id has been freed."""

    async def scene(desk: Desk) -> None:
        [holder] = await put_durably(desk.manager, WORLD, desk.all, [desk.entry(0, deduplication_id="once")])
        for together in (False, True):
            run = await desk.rows.insert(WorkflowStatus.PENDING)
            entries = [desk.entry(1, deduplication_id="once", on_duplicate="return_existing")]
            if together:
                entries.append(desk.entry(2))
            row = desk.record(run, entries, together=together)
            [first] = await desk.apply(desk.by_workflow(), row)
            assert first[0] == holder
            await desk.manager.execute(
                f"UPDATE {desk.rows.runs} SET deduplication_id = NULL WHERE workflow_uuid = ?", holder
            )
            assert await desk.apply(desk.by_workflow(), row) == [first]
            assert await desk.recall(desk.by_workflow(), row) == [first]
            await desk.manager.execute(
                f"UPDATE {desk.rows.runs} SET deduplication_id = 'once' WHERE workflow_uuid = ?", holder
            )
        assert len(await desk.waiting()) == 2

    at_desk(scene)


def test_refused_operation_of_a_batch_fails_alone(at_desk: Callable[..., None]) -> None:
    async def scene(desk: Desk) -> None:
        await put_durably(desk.manager, WORLD, desk.all, [desk.entry(0, deduplication_id="once")])
        kind = desk.by_workflow()
        runs = [await desk.rows.insert(WorkflowStatus.PENDING) for _ in range(6)]
        rows = [desk.record(run, [desk.entry(1, deduplication_id="once" if run is runs[3] else None)]) for run in runs]
        async with Pipeline(desk.manager) as pipeline:
            outcomes = await asyncio.gather(*(pipeline.write(kind, row) for row in rows), return_exceptions=True)
        assert isinstance(outcomes.pop(3), Deduplicated)
        assert len({each[0] for each in outcomes if not isinstance(each, BaseException)}) == 5
        assert await desk.rows.steps(runs[3]) == []
        assert len(await desk.waiting()) == 6

    at_desk(scene)


def test_taken_id_of_another_call_names_the_run(at_desk: Callable[..., None]) -> None:
    async def scene(desk: Desk) -> None:
        mine = desk.entry(1, workflow_id="mine")
        await put_durably(desk.manager, WORLD, desk.all, [mine])
        other = replace(desk.work(2).options, workflow_id="mine")
        wanted = [desk.entry(3), entry(desk.payloads, WORLD.new_id, desk.work(2)._replace(options=other))]
        with pytest.raises(WorkflowConflict, match="'mine'"):
            await put_durably(desk.manager, WORLD, desk.all, wanted)
        assert [row["workflow_uuid"] for row in await desk.waiting()] == ["mine"]

    at_desk(scene)
