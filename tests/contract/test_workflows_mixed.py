"""Functions of one colour in an application of the other, and what a terminal does to a direct call."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from holdfast import AsyncHoldfast, Holdfast
from holdfast.errors import MisuseError, StepTimeout
from holdfast.workflows.running.runner import Runner

if TYPE_CHECKING:
    from collections.abc import Callable

KINDS = pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb"])
PATIENCE = 60


@KINDS
def test_async_workflow_of_a_sync_application_is_awaited_or_started(
    fresh_database: Callable[[str], str], kind: str
) -> None:
    app = Holdfast(fresh_database(kind))

    @app.step
    async def double(number: int) -> int:
        await asyncio.sleep(0)
        return number * 2

    @app.workflow
    async def both(number: int) -> int:
        first, second = await asyncio.gather(double(number), double(number + 1))
        return first + second

    @app.workflow
    def parent(number: int) -> int:
        return both.start(number).result()

    async def main() -> int:
        return await both(1)

    with app:
        assert asyncio.run(main()) == 6
        assert both.start(2).result(PATIENCE) == 10
        assert parent(3) == 14


@KINDS
def test_sync_workflow_of_an_async_application_runs_on_a_thread(
    fresh_database: Callable[[str], str], kind: str
) -> None:
    async def main() -> None:
        app = AsyncHoldfast(fresh_database(kind))

        @app.step
        def where(number: int) -> list[int]:
            return [number, threading.get_ident()]

        @app.workflow
        def child(number: int) -> list[int]:
            return where(number)

        @app.workflow
        def threaded(number: int) -> list[int]:
            return child(number)

        @app.workflow
        async def parent(number: int) -> list[int]:
            return await (await threaded.start(number)).result()

        async with app:
            number, thread = await (await threaded.start(7)).result(PATIENCE)
            assert number == 7
            assert thread != threading.get_ident()
            assert (await parent(8))[0] == 8
            with pytest.raises(MisuseError, match=r"start\(\)"):
                threaded(1)

    asyncio.run(main())


@KINDS
def test_interrupt_of_a_direct_call_leaves_the_run_to_be_recovered(
    fresh_database: Callable[[str], str], kind: str
) -> None:
    url = fresh_database(kind)
    done: list[str] = []
    interrupted = [True]

    def build(app: Holdfast) -> Callable[[], str]:
        @app.step
        def note(text: str) -> str:
            done.append(text)
            return text

        @app.workflow
        def child() -> str:
            first = note("first")
            if interrupted:
                interrupted.clear()
                raise KeyboardInterrupt
            return f"{first} {note('second')}"

        @app.workflow
        def parent() -> str:
            return child()

        return parent.options(workflow_id="mine")

    app = Holdfast(url, application_version="1")
    parent = build(app)
    with app:
        with pytest.raises(KeyboardInterrupt):
            parent()
        assert app.retrieve_workflow("mine").status().status == "PENDING"
    again = Holdfast(url, application_version="1")
    build(again)
    with again:
        assert again.retrieve_workflow("mine").result(PATIENCE) == "first second"
    assert done == ["first", "second"]


@KINDS
@pytest.mark.parametrize("where", ["step", "child", "sleep", "gather"])
def test_interrupted_workflow_that_goes_on_does_nothing_before_it_is_recovered(
    fresh_database: Callable[[str], str], kind: str, where: str
) -> None:
    app = Holdfast(fresh_database(kind), lease=1, put_away_after=2 * PATIENCE)
    done: list[str] = []
    interrupted = threading.Event()

    def interrupt_when_it_waits() -> None:
        while (run := app._engine.runner.running.get("mine")) is None or run.waits().together() is None:
            assert not interrupted.wait(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    @app.step
    def note(text: str) -> None:
        if text == "interrupted" and not interrupted.is_set():
            interrupted.set()
            raise KeyboardInterrupt
        done.append(text)

    @app.workflow
    def child() -> None:
        note("interrupted")

    calls: dict[str, Callable[[], object]] = {
        "step": lambda: note("interrupted"),
        "child": child,
        "sleep": lambda: app.sleep(PATIENCE),
        "gather": lambda: app.gather(lambda: app.sleep(PATIENCE)),
    }

    @app.workflow
    def working() -> None:
        try:
            calls[where]()
        finally:
            note("cleaned up")

    waits = where in {"sleep", "gather"}
    with app:
        if waits:
            threading.Thread(target=interrupt_when_it_waits).start()
        with pytest.raises(KeyboardInterrupt):
            working.options(workflow_id="mine")()
        assert done == []
        if not waits:
            assert app.retrieve_workflow("mine").result(PATIENCE) is None
            assert done == ["interrupted", "cleaned up"]


def test_sync_application_refuses_a_blocking_call_on_its_own_loop(fresh_database: Callable[[str], str]) -> None:
    app = Holdfast(fresh_database("sqlite"))

    @app.workflow
    def other() -> int:
        return 1

    @app.workflow
    async def wrong(verb: str) -> str:
        try:
            if verb == "call":
                other()
            elif verb == "start":
                other.start()
            elif verb == "sleep":
                app.sleep(1)
            elif verb in {"launch", "close"}:
                getattr(app, verb)()
            else:
                app.retrieve_workflow("x").status()
        except MisuseError as error:
            return str(error)
        return "no error"

    with app:
        for verb in ("call", "start", "sleep", "status", "launch", "close"):
            assert "loop" in wrong.start(verb).result(PATIENCE), verb
        assert other() == 1


@KINDS
def test_interrupt_while_the_outcome_is_written_leaves_the_run_to_be_recovered_here(
    fresh_database: Callable[[str], str], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Holdfast(fresh_database(kind), lease=1)

    @app.workflow
    def one() -> int:
        return 1

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with app:
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(Runner, "_write_end_blocking", interrupted)
            one.options(workflow_id="mine")()
        assert app.retrieve_workflow("mine").result(PATIENCE) == 1


@KINDS
def test_part_that_hangs_beyond_its_time_keeps_no_thread_from_others(
    fresh_database: Callable[[str], str], kind: str
) -> None:
    app = Holdfast(fresh_database(kind), max_workflow_threads=1)
    let = threading.Event()

    @app.workflow
    def impatient() -> str:
        try:
            app.timeout(0.05, lambda: let.wait(PATIENCE))
        except TimeoutError:
            return "given up"
        return "in time"

    @app.workflow
    def quick() -> str:
        return "quick"

    try:
        with app:
            for _ in range(3):
                assert impatient.start().result(timeout=PATIENCE) == "given up"
            assert quick.start().result(timeout=PATIENCE) == "quick"
    finally:
        let.set()


@KINDS
def test_sync_step_of_an_async_workflow_that_hangs_keeps_no_thread_from_others(
    fresh_database: Callable[[str], str], kind: str
) -> None:
    let = threading.Event()

    async def scene() -> None:
        app = AsyncHoldfast(fresh_database(kind), max_workflow_threads=2)

        @app.step(timeout=0.05)
        def hangs() -> None:
            let.wait(PATIENCE)

        @app.step
        def double(number: int) -> int:
            return number * 2

        @app.workflow
        async def impatient(number: int) -> int:
            with suppress(StepTimeout):
                await app.run_step(hangs)
            return await app.run_step(double, number)

        async with app:
            for number in range(5):
                assert await impatient(number) == number * 2

    try:
        asyncio.run(scene())
    finally:
        let.set()


@KINDS
def test_sync_step_of_an_async_workflow_that_runs_out_of_an_iterator_fails(
    fresh_database: Callable[[str], str], kind: str
) -> None:
    async def scene() -> None:
        app = AsyncHoldfast(fresh_database(kind))

        @app.step
        def first(numbers: list[int]) -> int:
            return next(iter(numbers))

        @app.workflow
        async def takes(numbers: list[int]) -> int:
            return await app.run_step(first, numbers)

        async with app:
            with pytest.raises(RuntimeError, match="StopIteration"):
                await takes([])
            assert await takes([7]) == 7

    asyncio.run(scene())
