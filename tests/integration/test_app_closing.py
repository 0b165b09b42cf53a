"""A closing that is interrupted is carried to its end all the same, and the application opens again."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from holdfast import AsyncHoldfast, Holdfast, Retry, faults
from holdfast.db import DialectName, SyncConnectionManager
from holdfast.errors import NotInitialized
from holdfast.testing.workers import until

FreshDatabase = Callable[[str], str]

ENDING = """
import asyncio, atexit, sys, threading
from holdfast import Holdfast

app = Holdfast(sys.argv[1], application_version="v1")
ending = threading.Event()

@app.step
async def asked(within: bool) -> int:
    return await asyncio.to_thread(int, 1) if within else 0

@app.workflow
async def asks(within: bool) -> int:
    while "again" not in sys.argv and not ending.is_set():
        await asyncio.sleep(0.01)
    if not within:
        await asyncio.to_thread(int, 1)
    return await asked(within)

app.launch()
atexit.register(app.close, 20)
atexit.register(ending.set)  # before the closing, and after threads are refused
for within in (True, False):
    run = asks.options(workflow_id=f"asks-{within}").start(within)
    if "again" in sys.argv:
        print(run.result(timeout=60))
"""


INTERRUPTED = """
import os, signal, sys, threading, time
from holdfast import Holdfast
from holdfast.errors import NotInitialized

app = Holdfast(sys.argv[1])
stuck = threading.Event()

@app.workflow
def waits():
    stuck.wait()

@app.workflow
def quick():
    return 1

def press():
    while True:  # until the application is being closed
        try:
            quick()
        except NotInitialized:
            os.kill(os.getpid(), signal.SIGINT)
            return
        time.sleep(0.01)

app.launch()
waits.options(workflow_id="waits").start()
threading.Thread(target=press).start()
try:
    app.close(drain=600)
except KeyboardInterrupt:
    print("interrupted")
app.close()
print(sorted(thread.name for thread in threading.enumerate() if thread.name.startswith("holdfast-")))
"""


def left_behind(url: str) -> tuple[str, int]:
    """Return the status of the run, and how many executors are registered."""
    with SyncConnectionManager(url) as manager:
        schema = "holdfast." if manager.dialect is DialectName.POSTGRES else ""
        [run] = manager.fetch(f"SELECT status FROM {schema}workflow_status WHERE workflow_uuid = 'waits'")
        return run["status"], len(manager.fetch(f"SELECT incarnation FROM {schema}executors"))


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb"])
def test_interrupted_close_of_a_thread_hands_over_signs_off_and_closes(
    kind: str, fresh_database: FreshDatabase
) -> None:
    url = fresh_database(kind)
    command = [sys.executable, "-c", INTERRUPTED, url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["interrupted", "['holdfast-workflow']"]
    assert left_behind(url) == ("ENQUEUED", 0)


def stuck_application(url: str) -> tuple[AsyncHoldfast, asyncio.Event]:
    app, begun = AsyncHoldfast(url), asyncio.Event()

    async def waits() -> None:
        begun.set()
        await asyncio.Event().wait()

    async def quick() -> int:
        return 1

    app.workflow(name="waits")(waits)
    app.workflow(name="quick")(quick)
    return app, begun


async def start(app: AsyncHoldfast, begun: asyncio.Event) -> None:
    """Launch, and have a run that does not end."""
    await app.launch()
    await app.register_queue("work")
    await app.enqueue("waits", queue_name="work", workflow_id="waits")
    await begun.wait()


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb"])
def test_cancelled_close_of_a_task_hands_over_signs_off_and_closes(kind: str, fresh_database: FreshDatabase) -> None:
    url = fresh_database(kind)

    async def scene() -> None:
        app, begun = stuck_application(url)
        await start(app, begun)
        closing = asyncio.create_task(app.close(drain=600))
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert left_behind(url) == ("ENQUEUED", 0)
        with pytest.raises(NotInitialized, match="launch"):
            await app.list_executors()
        await app.close()
        begun.clear()
        await app.launch()
        await begun.wait()
        assert left_behind(url) == ("PENDING", 1)
        await app.close()

    asyncio.run(scene())


def test_close_and_launch_wait_for_a_closing_that_nobody_waits_for(fresh_database: FreshDatabase) -> None:
    url = fresh_database("sqlite")

    async def scene() -> None:
        app, begun = stuck_application(url)
        for again in (app.close, app.launch):
            await start(app, begun)
            closing = asyncio.create_task(app.close(drain=600))
            await asyncio.sleep(0)
            closing.cancel()
            await asyncio.sleep(0)
            closing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await closing
            begun.clear()
            await again()
        await begun.wait()
        assert left_behind(url) == ("PENDING", 1)
        await app.close()
        assert left_behind(url) == ("ENQUEUED", 0)

    asyncio.run(scene())


def test_part_that_fails_keeps_no_other_from_closing(fresh_database: FreshDatabase) -> None:
    url = fresh_database("sqlite")

    async def scene() -> None:
        app, begun = stuck_application(url)
        await start(app, begun)

        async def broken() -> None:
            raise OSError("this part cannot end")

        app._engine.ticker.stop = broken  # type: ignore[method-assign]
        with pytest.raises(OSError, match="cannot end"):
            await app.close()
        assert left_behind(url) == ("ENQUEUED", 0)
        await app.close()

    asyncio.run(scene())


def test_threads_that_close_at_once_both_return_when_it_is_closed(fresh_database: FreshDatabase) -> None:
    url = fresh_database("sqlite")

    async def scene() -> None:
        for _ in range(10):
            app = Holdfast(url)
            await asyncio.to_thread(app.launch)
            await asyncio.gather(*(asyncio.to_thread(app.close, drain) for drain in (0, 600, 0)))
            with pytest.raises(NotInitialized, match="launch"):
                app.list_executors()

    asyncio.run(scene())


AT_EXIT = """
import atexit, sys, threading
from holdfast import Client, Holdfast, Transaction

app, client, called = Holdfast(sys.argv[1]), Client(sys.argv[1]), threading.Event()

@app.transaction
def one(tx: Transaction) -> int:
    return tx.fetchone("SELECT 1 AS one")["one"]

@app.workflow
def asks() -> int:
    return one()

@app.workflow
def waits():
    called.set()
    threading.Event().wait()

app.launch()
client.open()
atexit.register(app.close)
atexit.register(client.close)
assert asks() == 1  # a thread's own connection is left to be closed
waits.options(workflow_id="waits").start()
called.wait()
"""


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb"])
def test_application_that_is_closed_when_its_program_ends_hands_over_and_signs_off(
    kind: str, fresh_database: FreshDatabase
) -> None:
    """No thread can be begun any more by then, and what asyncio keeps for that is closed."""
    url = fresh_database(kind)
    done = subprocess.run(
        [sys.executable, "-c", AT_EXIT, url], capture_output=True, text=True, timeout=120, check=False
    )
    assert "Traceback" not in done.stderr
    assert done.returncode == 0
    assert left_behind(url) == ("ENQUEUED", 0)


def statuses(url: str) -> dict[str, str]:
    with SyncConnectionManager(url) as manager:
        return {row["workflow_uuid"]: row["status"] for row in manager.fetch("SELECT * FROM workflow_status")}


def has_no_engine(app: AsyncHoldfast | Holdfast) -> bool:
    return not app._engine._launched  # nobody else is told when runs are given back


def test_child_whose_start_is_committed_while_its_task_s_application_closes_goes_on_later(
    fresh_database: FreshDatabase,
) -> None:
    url = fresh_database("sqlite")

    async def scene() -> None:
        app, loop, closing = AsyncHoldfast(url), asyncio.get_running_loop(), list[asyncio.Task[None]]()
        begun: list[bool] = []

        @app.workflow
        async def child() -> bool:
            begun.append(closing[0].done())
            return bool(await app.uuid())

        @app.workflow
        async def parent() -> bool:
            if not closing:
                faults.arm("pipeline.before_commit", hold_until_closed)
            return await (await child.options(workflow_id="child").start()).result()

        def hold_until_closed() -> None:
            loop.call_soon_threadsafe(lambda: closing.append(loop.create_task(app.close())))
            until(lambda: has_no_engine(app))

        await app.launch()
        await parent.options(workflow_id="parent").start()
        await asyncio.to_thread(until, lambda: bool(closing))
        await closing[0]
        assert statuses(url) == {"parent": "ENQUEUED", "child": "ENQUEUED"}
        async with app:
            assert await app.retrieve_workflow("parent").result(60) is True
        assert begun == [True]  # and not once before that

    try:
        asyncio.run(scene())
    finally:
        faults.disarm()


def test_child_whose_start_is_committed_while_its_thread_s_application_closes_goes_on_later(
    fresh_database: FreshDatabase,
) -> None:
    url = fresh_database("sqlite")
    app, closing, begun = Holdfast(url), list[threading.Thread](), list[bool]()

    @app.workflow
    def child() -> bool:
        begun.append(not closing[0].is_alive())
        return bool(app.uuid())

    @app.workflow
    def parent() -> bool:
        if not closing:
            faults.arm("pipeline.before_commit", hold_until_closed)
        return child.options(workflow_id="child").start().result()

    def hold_until_closed() -> None:
        thread = threading.Thread(target=app.close)
        thread.start()
        closing.append(thread)
        until(lambda: has_no_engine(app))

    try:
        app.launch()
        parent.options(workflow_id="parent").start()
        until(lambda: bool(closing))
        closing[0].join()
        assert statuses(url) == {"parent": "ENQUEUED", "child": "ENQUEUED"}
        with app:
            assert app.retrieve_workflow("parent").result(60) is True
        assert begun == [True]  # and not once before that
    finally:
        faults.disarm()


def test_close_of_a_task_waits_for_a_step_that_gives_back_what_it_holds(fresh_database: FreshDatabase) -> None:
    """The end of the loop, which often comes next, would cut that off. Nobody else waits for it."""
    url, told = fresh_database("sqlite"), list[str]()

    async def scene() -> None:
        app, begun = AsyncHoldfast(url), asyncio.Event()

        @app.step
        async def holds() -> None:
            try:
                begun.set()
                await asyncio.Event().wait()
            finally:
                await asyncio.to_thread(until, lambda: statuses(url) == {"uses": "ENQUEUED"})
                await asyncio.sleep(0.5)  # longer than all else that a close does
                told.append("has given back")

        @app.workflow
        async def uses() -> None:
            await holds()

        async with app:
            await uses.options(workflow_id="uses").start()
            await begun.wait()
        told.append("closed")

    asyncio.run(scene())
    assert told == ["has given back", "closed"]


def test_close_of_a_thread_waits_for_an_async_step_that_gives_back_what_it_holds(fresh_database: FreshDatabase) -> None:
    url, told, begun = fresh_database("sqlite"), list[str](), threading.Event()
    app = Holdfast(url)

    @app.step
    async def holds() -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.to_thread(until, lambda: statuses(url) == {"uses": "ENQUEUED"})
            await asyncio.sleep(0.5)  # longer than all else that a close does
            told.append("has given back")

    @app.workflow
    async def uses() -> None:
        await holds()

    with app:
        uses.options(workflow_id="uses").start()
        assert begun.wait(60)
    assert told == ["has given back"]


@pytest.mark.parametrize("who", ["a step that never ends", "a step that closes"])
def test_close_does_not_wait_for_ever(
    who: str, fresh_database: FreshDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    url = fresh_database("sqlite")

    async def scene() -> None:
        lease = 0.5 if who == "a step that never ends" else 3600
        app, begun, go_on, closed = AsyncHoldfast(url, lease=lease), asyncio.Event(), asyncio.Event(), asyncio.Event()

        @app.step
        async def stubborn() -> None:
            begun.set()
            if who == "a step that closes":
                try:
                    await app.close()
                finally:
                    closed.set()
            while not go_on.is_set():
                try:
                    await go_on.wait()
                except asyncio.CancelledError:
                    continue

        @app.workflow
        async def uses() -> None:
            await stubborn()

        await app.launch()
        await uses.options(workflow_id="uses").start()
        await begun.wait()
        async with asyncio.timeout(60):
            if who == "a step that closes":
                await closed.wait()
            await app.close()
        go_on.set()

    with caplog.at_level(logging.WARNING, "holdfast.workflows"):
        asyncio.run(scene())
    said = [each for each in caplog.messages if "have not ended within" in each]
    assert said == (
        ["Runs were stopped and have not ended within 0.5 s, what they clean up may be cut off: uses."]
        if "never" in who
        else []
    )


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_thread_that_waits_for_a_beat_is_let_go_by_the_close(kind: str, fresh_database: FreshDatabase) -> None:
    url = fresh_database(kind)
    app = Holdfast(url, lease=1)
    told: list[BaseException] = []

    @app.step(retry=Retry(attempts=1_000_000, interval=0.01, backoff=1))
    def fails() -> None:
        raise RuntimeError("not yet")

    @app.workflow
    def trying() -> None:
        fails()

    def call() -> None:
        try:
            trying()
        except NotInitialized as error:
            told.append(error)

    app.launch()
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    with SyncConnectionManager(url) as manager, manager.transaction() as held:
        schema = "holdfast." if manager.dialect is DialectName.POSTGRES else ""
        held.fetch(f"SELECT incarnation FROM {schema}executors FOR UPDATE")  # nobody can beat now
        until(lambda: not app._engine.permit.is_valid())
        app.close()
    thread.join(30)
    assert not thread.is_alive()
    assert "closed before" in str(told[0])


def test_what_fails_because_its_program_ends_goes_on_in_another(fresh_database: FreshDatabase) -> None:
    """Closed at exit, a drain comes after Python has begun to refuse threads, without which asyncio finds no host."""
    command = [sys.executable, "-c", ENDING, fresh_database("sqlite")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout) == (0, ""), ended.stderr
    again = subprocess.run([*command, "again"], capture_output=True, text=True, timeout=120, check=False)
    assert (again.returncode, again.stdout) == (0, "1\n0\n"), again.stderr


@pytest.mark.parametrize("asks", [Holdfast.now, Holdfast.list_executors, lambda app: app.patch("new")])
def test_thread_of_a_closed_application_is_stopped_where_it_asks_next_and_told_of_no_error(
    asks: Callable[[Holdfast], object], fresh_database: FreshDatabase
) -> None:
    app = Holdfast(fresh_database("sqlite"))
    begun, closed, over = threading.Event(), threading.Event(), threading.Event()
    told: list[Exception] = []

    @app.workflow
    def goes_on_whatever_happens() -> None:
        begun.set()
        closed.wait(60)
        try:
            asks(app)
        except Exception as error:  # noqa: BLE001 -- this is what it must not come to
            told.append(error)
        finally:
            over.set()

    with app:
        goes_on_whatever_happens.start()
        assert begun.wait(60)
    closed.set()
    assert over.wait(60)
    assert told == []
