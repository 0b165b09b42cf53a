"""The contract of changes that a workflow asks for: each and its record are one commit."""

from __future__ import annotations

import secrets
import threading
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast import faults
from holdfast.errors import Superseded, UnknownCommit, WorkflowCancelled
from holdfast.testing.colours import Colour
from holdfast.testing.contract.workflows_stage import Handle, Stage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from holdfast.testing.contract.venue import Venue
    from holdfast.testing.contract.workflows_stage import Flow

_NEVER = "0 0 1 1 *"
_POINTS = ("control.before_commit", "control.recorded")
_ENDED = ("rewound", "deleted", "first", "last", "forked")
_WAITING = ("cancelled", "resumed", "delayed")
_MISSING = [f"missing-{number}" for number in range(600)]  # outside of a workflow these are two transactions


class Changes:
    """A workflow ``ask`` that makes one of many changes, each of something of its own, and how often each was made."""

    def __init__(self, stage: Stage) -> None:
        self.app = stage.app()
        self.lost: list[str] = []
        self._stage = stage
        self._name = secrets.token_hex(8)
        self._ran: list[str] = []
        self._document: Any = None
        self._ended, self._waiting, self._ask = self._ended_flow(), self._waiting_flow(), self._ask_flow()
        self.calls: dict[str, tuple[str, tuple[Any, ...], dict[str, Any]]] = {
            "rewind": ("rewind_workflow", (self.of("rewound"),), {}),
            "delete": ("delete_workflow", (self.of("deleted"),), {}),
            "delete many": ("delete_workflows", ([self.of("first"), *_MISSING, self.of("last")],), {}),
            "fork": ("fork_workflow", (self.of("forked"),), {}),
            "cancel": ("cancel_workflow", (self.of("cancelled"),), {}),
            "resume": ("resume_workflow", (self.of("resumed"),), {"queue_name": self.of("unheard")}),
            "delay": ("set_workflow_delay", (self.of("delayed"), 7200), {}),
            "import": ("import_workflow", (), {"workflow_id": self.of("imported")}),
            "register": ("register_queue", (self.of("new"),), {"on_conflict": "reject"}),
            "delete queue": ("delete_queue", (self.of("old"),), {}),
            "create": ("create_schedule", (self.of("new"), "waiting", _NEVER), {"on_conflict": "reject"}),
            "trigger": ("trigger_schedule", (self.of("fired"),), {}),
            "delete schedule": ("delete_schedule", (self.of("old"),), {}),
        }

    def of(self, what: str) -> str:
        """Return a name that nobody else has in this database."""
        return f"{what}-{self._name}"

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Launch, and make what is to be changed. Schedules are deleted afterwards: other tests count theirs."""
        async with self.app:
            await self._prepare()
            try:
                yield
            finally:
                schedules = self._stage.table("workflow_schedules")
                self._stage.execute(f"DELETE FROM {schedules} WHERE schedule_name LIKE ?", f"%-{self._name}")

    async def _prepare(self) -> None:
        for each in _ENDED:
            await (await self._ended.options(workflow_id=self.of(each)).start()).result()
        self._document = await self.app.do("export_workflow", self.of("forked"))
        for each in _WAITING:
            later = self._waiting.raw.options(workflow_id=self.of(each), queue_name=self.of("unheard"), delay=3600)
            await self.app.value(later.enqueue())
        await self.app.do("cancel_workflow", self.of("resumed"))
        await self.app.do("register_queue", self.of("old"))
        for each in ("old", "fired"):
            await self.app.do("create_schedule", self.of(each), "waiting", _NEVER)

    async def ask(self, call: str) -> Handle:
        """Start a workflow that asks for a change."""
        return await self._ask.options(workflow_id=self.of(f"ask {call}")).start(call)

    async def made(self) -> dict[str, float]:
        """Return for each call how often its change has been made."""
        runs = {row["workflow_uuid"]: row for row in self._runs(f"%-{self._name}")}
        queues = {each.name for each in await self.app.do("list_queues")}
        schedules = {each.schedule_name for each in await self.app.do("list_schedules")}
        delayed = runs[self.of("delayed")]
        return {
            "rewind": self._ran.count(self.of("rewound")) - 1,
            "delete": self.of("deleted") not in runs,
            "delete many": sum(self.of(each) not in runs for each in ("first", "last")) / 2,
            "fork": len(self._runs(f"{self.of('ask fork')}-%")),
            "cancel": runs[self.of("cancelled")]["status"] == "CANCELLED",
            "resume": runs[self.of("resumed")]["status"] == "ENQUEUED",
            "delay": delayed["delay_until_epoch_ms"] > delayed["created_at"] + 7_000_000,
            "import": self.of("imported") in runs,
            "register": self.of("new") in queues,
            "delete queue": self.of("old") not in queues,
            "create": self.of("new") in schedules,
            "trigger": len(self._runs(f"{self.of('ask trigger')}-%")),
            "delete schedule": self.of("old") not in schedules,
        }

    def _ended_flow(self) -> Flow:
        async def note(run: str) -> None:
            self._ran.append(run)

        step = self.app.step(note)

        async def ended() -> None:
            run = self.app.raw.workflow_id
            await step(run)
            await self.app.do("update_workflow_attributes", run, {"ended": True})

        return self.app.workflow(ended)

    def _waiting_flow(self) -> Flow:
        async def waiting(moment: Any = None, context: Any = None) -> None:
            """Do nothing: what counts is that it is there."""

        return self.app.workflow(waiting)

    def _ask_flow(self) -> Flow:
        async def ask(call: str) -> list[str]:
            verb, args, more = self.calls[call]
            try:
                answer = await self.app.do(verb, *([self._document] if call == "import" else args), **more)
            except Superseded:
                self.lost.append(call)
                raise
            return list(answer.changed) if call == "delete many" else []

        return self.app.workflow(ask)

    def _runs(self, like: str) -> list[Any]:
        return self._stage.rows(
            f"SELECT * FROM {self._stage.table('workflow_status')} WHERE workflow_uuid LIKE ?", like
        )


class ManagingContract:
    """What becomes of a change if the workflow that asks for it is lost on the way."""

    def test_change_is_made_once_whenever_the_workflow_that_asks_for_it_is_lost(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            changes = Changes(stage)
            first = stage.colour is Colour.SYNC  # each call is lost at one point in this colour, at the other in that
            async with changes.open():
                handles = {}
                try:
                    for number, call in enumerate(changes.calls):
                        lost = _arm(_POINTS[(number + first) % 2], Superseded("lost on purpose"))
                        handles[call] = await changes.ask(call)
                        await stage.until(lost.is_set)
                finally:
                    faults.disarm()
                answers = {call: await handle.result() for call, handle in handles.items()}
                await changes.app.retrieve(changes.of("rewound")).result()
                assert await changes.made() == dict.fromkeys(changes.calls, 1)
                assert answers["delete many"] == [changes.of("first"), changes.of("last")]

        Stage(venue).play(scene)

    def test_change_whose_commit_is_in_doubt_is_made_once(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            changes = Changes(stage)
            async with changes.open():
                for number, call in enumerate(changes.calls):
                    lost = _arm(_POINTS[number % 2], UnknownCommit("the reply was lost"))
                    try:
                        await (await changes.ask(call)).result()
                    finally:
                        faults.disarm()
                    assert lost.is_set()
                await changes.app.retrieve(changes.of("rewound")).result()
                assert await changes.made() == dict.fromkeys(changes.calls, 1)

        Stage(venue).play(scene)

    def test_execution_that_was_superseded_changes_nothing(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            changes = Changes(stage)
            async with changes.open():
                for call in changes.calls:
                    faults.arm("step.before_user_code", partial(_taken, stage, changes.of(f"ask {call}")))
                    try:
                        await changes.ask(call)
                        await stage.until(partial(changes.lost.count, call))
                    finally:
                        faults.disarm()
                assert await changes.made() == dict.fromkeys(changes.calls, 0)

        Stage(venue).play(scene)

    def test_run_that_cancels_itself_goes_on_behind_that_when_it_is_resumed(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, beyond = stage.app(), list[str]()

            async def quitting() -> str:
                await app.do("cancel_workflow", app.raw.workflow_id)
                beyond.append("beyond")
                return "resumed"

            flow = app.workflow(quitting)
            async with app:
                handle = await flow.start()
                assert isinstance(await handle.error(), WorkflowCancelled)
                assert beyond == []
                again = Handle(app, await app.do("resume_workflow", handle.workflow_id))
                assert await again.result() == "resumed"
                assert [step["function_name"] for step in stage.steps(handle.workflow_id)] == [
                    "holdfast.cancel_workflow"
                ]

        Stage(venue).play(scene)

    def test_runs_that_change_each_other_and_themselves_at_once_all_come_to_an_end(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, gate = stage.app(), stage.gate()
            ids = [f"{number}-{secrets.token_hex(8)}" for number in range(4)]

            async def change(them: list[str], name: str) -> int:
                changes = await app.do("update_workflows_attributes", them, {name: True}, merge=True)
                return len(changes.changed)

            async def mutual(number: int) -> list[int]:
                await gate()
                others = [each for each in ids if each != ids[number]]
                parts = (partial(change, others, f"{number}a"), partial(change, ids[::-1], f"{number}b"))
                return await app.gather(*parts)

            flow = app.workflow(mutual)
            async with app:
                handles = [await flow.options(workflow_id=each).start(number) for number, each in enumerate(ids)]
                gate.open()
                assert [await each.result() for each in handles] == [[3, 4]] * 4
                assert {len((await each.status()).attributes or {}) for each in handles} == {7}

        Stage(venue).play(scene)


def _arm(point: str, error: BaseException) -> threading.Event:
    """Have *error* raised when *point* is passed next; return what is set then."""
    passed = threading.Event()

    def lose() -> None:
        passed.set()
        raise error

    faults.arm(point, lose)
    return passed


def _taken(stage: Stage, run: str) -> None:
    """Have another execution own a run."""
    query = f"UPDATE {stage.table('workflow_status')} SET owner_xid = 'another' WHERE workflow_uuid = ?"
    stage.execute(query, run)
