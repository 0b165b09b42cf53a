"""User functions that do what they should not: the run ends with the reason, the process and its other runs go on."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import AsyncHoldfast, Holdfast, Retention, WorkflowStatus
from holdfast.errors import CannotSerialize, MisuseError, RecordedError, StepTimeout
from holdfast.testing.workers import until

if TYPE_CHECKING:
    from collections.abc import Callable

KINDS = ["sqlite", "postgres", "mariadb"]


@pytest.mark.parametrize("kind", KINDS)
def test_base_exceptions_of_a_workflow_and_of_a_step_end_the_run_alone(
    kind: str, fresh_database: Callable[[str], str]
) -> None:
    app = Holdfast(fresh_database(kind))

    @app.step
    def leave(error: str) -> None:
        raise {"exit": SystemExit(3), "interrupt": KeyboardInterrupt(), "generator": GeneratorExit()}[error]

    @app.workflow
    def leaving(error: str) -> None:
        leave(error)

    @app.workflow
    def staying() -> str:
        return "here"

    with app:
        for error in ("exit", "interrupt", "generator"):
            handle = leaving.start(error)
            with pytest.raises((RecordedError, SystemExit, KeyboardInterrupt, GeneratorExit)):
                handle.result(timeout=60)
            assert handle.status().status is WorkflowStatus.ERROR
        assert staying() == "here"


@pytest.mark.parametrize("kind", KINDS)
def test_base_exceptions_of_an_async_workflow_do_not_end_the_loop(
    kind: str, fresh_database: Callable[[str], str]
) -> None:
    app = AsyncHoldfast(fresh_database(kind))

    @app.step
    async def leave() -> None:
        raise SystemExit(3)

    @app.workflow
    async def leaving() -> None:
        await leave()

    @app.workflow
    async def leaving_from_a_branch() -> None:
        await app.gather(leave(), leave())

    @app.workflow
    async def leaving_in_time() -> None:
        await app.timeout(60, leave())

    @app.workflow
    async def cancelling() -> None:
        raise asyncio.CancelledError

    @app.workflow
    async def staying() -> str:
        return "here"

    async def scene() -> None:
        async with app:
            for workflow in (leaving, leaving_from_a_branch, leaving_in_time, cancelling):
                handle = await workflow.start()
                with pytest.raises((RecordedError, SystemExit, asyncio.CancelledError)):
                    await handle.result(timeout=60)
                assert (await handle.status()).status is WorkflowStatus.ERROR
            assert await staying() == "here"

    asyncio.run(scene())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_base_exceptions_on_the_loop_of_a_sync_application_do_not_end_it(
    kind: str, error: type[BaseException], fresh_database: Callable[[str], str]
) -> None:
    app = Holdfast(fresh_database(kind))

    @app.step
    async def leave() -> None:
        raise error(3)

    @app.workflow
    def leaving() -> None:
        app.run_step(leave)

    @app.workflow
    async def leaving_from_a_task() -> None:
        await asyncio.gather(leave(), leave())

    @app.workflow
    async def staying() -> str:
        return "here"

    with app:
        for workflow in (leaving, leaving_from_a_task):
            handle = workflow.start()
            with pytest.raises((RecordedError, error)):
                handle.result(timeout=60)
            assert handle.status().status is WorkflowStatus.ERROR
        assert staying.start().result(timeout=60) == "here"


@pytest.mark.parametrize("kind", KINDS)
def test_what_cannot_be_serialized_fails_the_run_with_its_path_and_leaves_no_record(
    kind: str, fresh_database: Callable[[str], str]
) -> None:
    app = Holdfast(fresh_database(kind))

    @app.step
    def lock() -> Any:
        return {"deep": [threading.Lock()]}

    @app.workflow
    def in_step() -> Any:
        return lock()

    @app.workflow
    def in_result() -> Any:
        return {"deep": [threading.Lock()]}

    with app:
        for workflow in (in_step, in_result):
            handle = workflow.start()
            with pytest.raises(CannotSerialize, match="deep"):
                handle.result(timeout=60)
            assert handle.status().status is WorkflowStatus.ERROR


@pytest.mark.parametrize("kind", KINDS)
def test_i16_a_thread_left_behind_by_a_timeout_has_no_voice(kind: str, fresh_database: Callable[[str], str]) -> None:
    app = Holdfast(fresh_database(kind))
    late: list[Any] = []
    done = threading.Event()

    @app.workflow
    def other() -> str:
        return "started late"

    @app.step(timeout=0.1)
    def slow() -> str:
        until(lambda: app._engine.runner.running == {})
        yesterday = datetime.now(UTC) - timedelta(days=1)
        for change in (
            other.start,
            partial(app.fork_workflow, "kept"),
            partial(app.rewind_workflow, "kept"),
            partial(app.trigger_schedule, "kept"),
            partial(app.backfill_schedule, "kept", yesterday - timedelta(days=2), yesterday),
            partial(app.update_workflow_attributes, "kept", {"late": True}),
            partial(app.register_queue, "late"),
            partial(app.delete_workflow, "kept"),
            partial(app.prune, Retention(older_than=0)),
        ):
            try:
                late.append(change())
            except StepTimeout as error:
                late.append(error)
        late.append(app.get_workflow("kept").status)
        done.set()
        return "too late"

    @app.workflow
    def hasty() -> str:
        try:
            return slow()
        except StepTimeout:
            return "in time"

    with app:
        other.options(workflow_id="kept").start().result(timeout=60)
        app.create_schedule("kept", other, "@daily")
        handle = hasty.start()
        assert handle.result(timeout=60) == "in time"
        assert done.wait(60)
        steps = app._engine.ask_blocking(
            app._engine.manager.fetch(
                "SELECT function_name, output, error FROM "
                + ("holdfast." if kind == "postgres" else "")
                + "operation_outputs"
            )
        )
        assert len(steps) == 1
        assert steps[0]["output"] is None
        assert [type(each) for each in late[:-1]] == [StepTimeout] * 9
        assert late[-1] is WorkflowStatus.SUCCESS
        assert len(app.list_workflows()) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_workflow_that_spawns_threads_leaves_them_outside_of_the_record(
    kind: str, fresh_database: Callable[[str], str]
) -> None:
    app = Holdfast(fresh_database(kind))
    seen: list[str | None] = []

    @app.step
    def one() -> int:
        return 1

    @app.workflow
    def spawning() -> int:
        thread = threading.Thread(target=lambda: seen.append(app.workflow_id))
        thread.start()
        thread.join()
        return one() + one()

    with app:
        assert spawning() == 2
        assert seen == [None]


@pytest.mark.parametrize("kind", KINDS)
def test_a_forked_child_is_told_to_make_its_own_application(kind: str, fresh_database: Callable[[str], str]) -> None:
    app = Holdfast(fresh_database(kind))

    @app.step
    def one() -> int:
        return 1

    @app.workflow
    def adding() -> int:
        return one()

    with app:
        assert adding() == 1
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.write(writing, str(adding()).encode())
            except BaseException as error:  # noqa: BLE001 -- told to the parent, which judges
                os.write(writing, type(error).__name__.encode() + b": " + str(error).encode())
            os._exit(0)
        os.close(writing)
        deadline = time.monotonic() + 60
        while os.waitpid(child, os.WNOHANG) == (0, 0):
            if time.monotonic() > deadline:
                os.kill(child, 9)
                os.waitpid(child, 0)
                pytest.fail("The forked child waits for ever.")
            time.sleep(0.01)
        told = os.read(reading, 10_000).decode()
        os.close(reading)
        assert "fork" in told, told
        assert adding() == 1


@pytest.mark.parametrize("kind", KINDS)
def test_i12_twice_as_many_parents_as_threads_wait_for_children_and_end(
    kind: str, fresh_database: Callable[[str], str]
) -> None:
    app = Holdfast(fresh_database(kind), max_workflow_threads=3)

    @app.step
    def double(number: int) -> int:
        return 2 * number

    @app.workflow
    def leaf(number: int) -> int:
        return double(number)

    @app.workflow
    def middle(number: int) -> int:
        handles = [leaf.start(number + n) for n in range(3)]
        return sum(handle.result() for handle in handles)

    @app.workflow
    def parent(number: int) -> int:
        handles = [middle.start(number), middle.start(number)]
        app.sleep(0.05)
        return sum(app.wait_all(handles)) + sum(app.gather(lambda: leaf(1), lambda: leaf(2)))

    with app:
        handles = [parent.start(number) for number in range(6)]
        assert [handle.result(timeout=60) for handle in handles] == [12 * n + 12 + 6 for n in range(6)]


def test_i12_a_blocking_call_on_the_loop_s_own_thread_raises_at_once(fresh_database: Callable[[str], str]) -> None:
    app = Holdfast(fresh_database("sqlite"))

    @app.workflow
    def leaf() -> int:
        return 1

    @app.workflow
    async def parent() -> str:
        told = []
        for call in (leaf, leaf.start, lambda: app.sleep(1), lambda: app.retrieve_workflow("x").result()):
            try:
                call()
            except MisuseError as error:
                told.append(type(error).__name__)
        return ",".join(told)

    with app:
        told = parent.start().result(timeout=60)
        assert told == ",".join(["MisuseError"] * 4)
