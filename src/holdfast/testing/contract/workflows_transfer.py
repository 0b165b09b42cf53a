"""The contract of taking runs elsewhere: what is in a document, what an import makes of it, and what it refuses."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.db import ConnectionManager
from holdfast.db.migrations.migrator import SCHEMA
from holdfast.errors import ConfigurationError, UnknownCommit, WorkflowConflict, WorkflowNotFound
from holdfast.model.workflow import INTERNAL_QUEUE
from holdfast.model.world import RealWorld
from holdfast.testing.colours import Colour
from holdfast.testing.contract.workflows_stage import Stage
from holdfast.workflows.looking import Transfer, looking_queries

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from holdfast.db.session import Transaction
    from holdfast.testing.contract.venue import Venue
    from holdfast.testing.contract.workflows_stage import App, Flow

KEYS = {"workflow_uuid", "owner_xid", "creation_key", "incarnation"}


async def double(number: int) -> int:
    return number * 2


def doubling(app: App) -> Flow:
    """Register a workflow of two steps and a child."""
    step = app.step(double, name="double")
    child = app.workflow(double, name="child")

    async def twice(number: int) -> int:
        found: int = await child(await step(await step(number)))
        return found

    return app.workflow(twice, name="twice").options(attributes={"é": [1]}, authenticated_roles=("x",), timeout=3600)


def through_text(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document as it is after a journey as JSON."""
    arrived: dict[str, Any] = json.loads(json.dumps(document))
    return arrived


class Forgetful(ConnectionManager):
    """Loses the reply of its first commit."""

    lost = 0

    async def run(
        self, work: Callable[[Transaction], Coroutine[Any, Any, Any]], *, isolation: str | None = None
    ) -> Any:
        done = await super().run(work, isolation=isolation)
        self.lost += 1
        if self.lost == 1:
            raise UnknownCommit("The connection broke while the commit was under way.")
        return done


def broken(document: dict[str, Any], *path: Any, value: Any = ...) -> dict[str, Any]:
    """Return a copy of a document in which one thing is another, or is not there."""
    copied = through_text(document)
    part: Any = copied
    for name in path[:-1]:
        part = part[name]
    if value is ...:
        del part[path[-1]]
    else:
        part[path[-1]] = value
    return copied


def breakages(document: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return what is wrong, and a document in which it is."""
    run = ("workflow",)
    return [
        ("format", broken(document, "format", value="other")),
        ("version 2", broken(document, "format_version", value=2)),
        ("half a character", broken(document, *run, "priority", value="\ud800")),
        ("steps", broken(document, "steps")),
        ("surprise", broken(document, "surprise", value=1)),
        ("colour", broken(document, *run, "colour", value="red")),
        ("colour", broken(document, "steps", 0, "colour", value="red")),
        ("status", broken(document, *run, "status", value="DONE")),
        ("name", broken(document, *run, "name", value=None)),
        ("cannot be recorded", broken(document, *run, "name", value='a"b')),
        ("cannot be recorded", broken(document, *run, "class_name", value="a\\b")),
        ("cannot be recorded", broken(document, *run, "config_name", value="")),
        ("created_at", broken(document, *run, "created_at", value="soon")),
        ("too large", broken(document, *run, "priority", value=2**70)),
        ("too large", broken(document, *run, "generation", value=2**40)),
        ("too large", broken(document, "steps", 0, "function_id", value=2**31)),
        ("attributes", broken(document, *run, "attributes", value="[]")),
        ("not JSON", broken(document, *run, "authenticated_roles", value="{")),
        ("NUL", broken(document, *run, "inputs", value="a\0b")),
        ("longer", broken(document, *run, "executor_id", value="x" * 256)),
        ("updated_at", broken(document, *run, "completed_at", value=2**60)),
        ("completed_at", broken(document, *run, "completed_at", value=None)),
        ("workflow id", broken(document, *run, "workflow_uuid", value="")),
        ("function_id", broken(document, "steps", 1, "function_id", value=1)),
        ("identity", broken(document, "steps", 1, "identity", value="0")),
    ]


class TransferContract:
    """Documents of runs."""

    def test_ended_run_is_the_same_after_a_journey(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            flow = doubling(app)
            async with app:
                handle = await flow.start(3)
                assert await handle.result() == 24
                document = await app.do("export_workflow", handle.workflow_id)
                assert (document["format"], document["format_version"]) == ("holdfast.workflow", 1)
                assert len(document["children"]) == 1
                copy = f"{handle.workflow_id}-copy"
                made = await app.do("import_workflow", through_text(document), workflow_id=copy)
                assert made.workflow_id == copy
                before, after = stage.run(handle.workflow_id), stage.run(copy)
                assert {name: before[name] for name in before if name not in KEYS} == {
                    name: after[name] for name in after if name not in KEYS
                }
                assert after["creation_key"] not in {None, before["creation_key"]}
                assert (after["owner_xid"], after["incarnation"]) == (None, None)
                assert await app.retrieve(copy).result() == 24
                again = await app.do("export_workflow", copy)
                # What an operation was given may be the id of its run, which is another one now.
                assert again["steps"] == [step | {"fingerprint": None} for step in document["steps"]]
                assert again["workflow"] == document["workflow"] | {"workflow_uuid": copy}

        Stage(venue).play(scene)

    def test_run_that_had_not_ended_goes_on_from_its_record(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, gate, called = stage.app(), stage.gate(), list[int]()

            async def count(number: int) -> int:
                called.append(number)
                return number

            step = app.step(count)

            async def waiting() -> int:
                first: int = await step(1)
                await gate()
                second: int = await step(2)
                return first + second

            flow = app.workflow(waiting)
            async with app:
                handle = await flow.start()
                await gate.reached()
                document = await app.do("export_workflow", handle.workflow_id)
                assert (document["workflow"]["status"], len(document["steps"])) == ("PENDING", 1)
                copy = f"{handle.workflow_id}-copy"
                await app.do("import_workflow", through_text(document), workflow_id=copy)
                assert stage.run(copy)["queue_name"] == INTERNAL_QUEUE
                gate.open()
                assert await handle.result() == await app.retrieve(copy).result() == 3
                assert called == [1, 2, 2]

        Stage(venue).play(scene)

    def test_import_of_an_id_that_is_taken_changes_nothing(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            flow = doubling(app)
            async with app:
                handle = await flow.start(3)
                await handle.result()
                document = await app.do("export_workflow", handle.workflow_id)
                before = stage.run(handle.workflow_id), stage.steps(handle.workflow_id)
                with pytest.raises(WorkflowConflict, match="SUCCESS"):
                    await app.do("import_workflow", document)
                there = await app.do("import_workflow", document, on_conflict="return_existing")
                assert there.workflow_id == handle.workflow_id
                assert (stage.run(handle.workflow_id), stage.steps(handle.workflow_id)) == before
                with pytest.raises(ConfigurationError, match="on_conflict"):
                    await app.do("import_workflow", document, on_conflict="overwrite")
                with pytest.raises(WorkflowNotFound, match="nobody"):
                    await app.do("export_workflow", "nobody")

        Stage(venue).play(scene)

    def test_document_that_does_not_fit_is_refused_before_anything_is_written(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            flow = doubling(app)
            async with app:
                handle = await flow.start(3)
                await handle.result()
                document = await app.do("export_workflow", handle.workflow_id)
                copy = f"{handle.workflow_id}-copy"
                for told, wrong in breakages(document):
                    with pytest.raises(ConfigurationError, match=told):
                        await app.do("import_workflow", wrong, workflow_id=copy)
                for wrong_id in ("nul\0", "", "x" * 600, 5):
                    with pytest.raises(ConfigurationError, match="workflow_id"):
                        await app.do("import_workflow", document, workflow_id=wrong_id)
                assert len(await app.do("list_workflows", name="twice", application_version=stage.version)) == 1
                assert await app.do("list_workflows", workflow_ids=copy) == []

        Stage(venue).play(scene)

    def test_import_whose_reply_is_lost_is_made_once(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            flow = doubling(app)
            async with app:
                handle = await flow.start(3)
                await handle.result()
                document = await app.do("export_workflow", handle.workflow_id)
            copy = f"{handle.workflow_id}-copy"

            async def work() -> None:
                async with Forgetful(stage.url) as manager:
                    transfer = Transfer(manager, looking_queries(manager.dialect, SCHEMA), RealWorld())
                    assert await transfer.import_(document, workflow_id=copy) == copy
                    assert manager.lost == 2

            await work() if stage.colour is Colour.ASYNC else asyncio.run(work())
            assert stage.run(copy)["status"] == "SUCCESS"
            assert len(stage.steps(copy)) == len(document["steps"])

        Stage(venue).play(scene)
