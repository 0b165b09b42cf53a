"""Mistakes of a program's own code: each ends in an outcome, or is told, and holds nobody else up."""

from __future__ import annotations

import asyncio
import bz2
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import pytest

from holdfast import AsyncHoldfast, Holdfast, Message, Retry
from holdfast.db.blocking.sync import SyncConnectionManager
from holdfast.errors import CannotDeserialize, CannotSerialize, CodecError, MisuseError, NotInitialized
from holdfast.serialize import Serialization

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass
class Left:
    number: int


@dataclass
class Right:
    number: int


class Bzip2:
    """A codec that lets the errors of its library through, and fails on command."""

    name = "bz2"
    away = False

    def choose(self, data: bytes) -> str | None:
        if self.away:
            raise OSError("the key service is away")
        return "" if len(data) > 500 else None

    def encode(self, data: bytes, _variant: str, _bound: bytes) -> bytes:
        return bz2.compress(data)

    def decode(self, data: bytes, _variant: str, _bound: bytes) -> bytes:
        return bz2.decompress(data)


def test_payload_that_a_codec_cannot_open_ends_its_run_and_no_other(fresh_database: Callable[[str], str]) -> None:
    url = fresh_database("sqlite")
    app = Holdfast(url, serializer=Serialization(codecs=[Bzip2()]))

    @app.workflow
    def length(text: str) -> int:
        return len(text)

    with app:
        app.register_queue("q")
        app.pause_queue("q")
        handles = [length.options(queue_name="q").enqueue("x" * 1000) for _ in range(4)]
        with SyncConnectionManager(url) as manager:
            manager.execute(
                "UPDATE workflow_status SET inputs = 'AAAA' WHERE workflow_uuid = ?", handles[0].workflow_id
            )
        app.resume_queue("q")
        with pytest.raises(CodecError, match="The codec 'bz2' raised OSError"):
            handles[0].result(timeout=60)
        assert [each.result(timeout=60) for each in handles[1:]] == [1000] * 3


def test_annotation_known_too_late_to_be_refused_ends_its_runs_and_no_other(
    fresh_database: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Holdfast(fresh_database("sqlite"))

    def takes(part: Any) -> int:
        return len(part)

    def gives(number: int) -> Any:
        return Left(number)

    takes.__annotations__["part"] = gives.__annotations__["return"] = "Part"
    app.workflow(takes)
    given = app.workflow(gives)

    @app.workflow
    def length(text: str) -> int:
        return len(text)

    monkeypatch.setitem(globals(), "Part", Left | Right)  # what stands further down in the module
    with app:
        app.register_queue("q")
        app.pause_queue("q")
        taken = app.enqueue(takes.__qualname__, [{"number": 1}], queue_name="q")
        other = length.options(queue_name="q").enqueue("four")
        app.resume_queue("q")
        with pytest.raises(CannotDeserialize, match=r"argument 'part'.*cannot be read back"):
            taken.result(timeout=60)
        assert other.result(timeout=60) == 4
        with pytest.raises(CannotDeserialize, match=r"the result.*cannot be read back"):
            given.start(1).result(timeout=60)


def test_result_that_a_codec_does_not_take_ends_the_run(fresh_database: Callable[[str], str]) -> None:
    async def scene() -> None:
        codec = Bzip2()
        app = AsyncHoldfast(fresh_database("sqlite"), serializer=Serialization(codecs=[codec]))

        @app.workflow
        async def work() -> int:
            codec.away = True
            return 2

        async with app:
            handle = await work.start()
            with pytest.raises(CodecError, match="The codec 'bz2' raised OSError"):
                await handle.result(timeout=60)
            codec.away = False
            assert (await handle.status()).status == "ERROR"

    asyncio.run(scene())


@pytest.mark.parametrize("what", ["step", "workflow"])
def test_async_function_that_a_sync_workflow_calls_is_refused_with_the_way_to_do_it(
    what: str, fresh_database: Callable[[str], str]
) -> None:
    app, sent = Holdfast(fresh_database("sqlite")), list[str]()

    async def send(to: str) -> str:
        sent.append(to)
        return to

    called: Any = app.step(send) if what == "step" else app.workflow(send)

    @app.workflow
    def order(to: str) -> str:
        called(to)
        return "ok"

    @app.workflow
    def right(to: str) -> str:
        found: str = app.run_step(called, to) if what == "step" else called.start(to).result()
        return found

    with app:
        with pytest.raises(MisuseError, match="nothing awaits it"):
            order("ann")
        assert sent == []
        assert right("bob") == "bob"
        assert sent == ["bob"]


def test_run_that_fails_in_the_background_leaves_its_traceback_in_the_log(
    fresh_database: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "holdfast.workflows")
    app = Holdfast(fresh_database("sqlite"))

    @app.step(retry=Retry(attempts=2, interval=0.01))
    def look() -> None:
        raise LookupError("nothing there")

    @app.workflow
    def job() -> None:
        look()

    with app:
        handle = job.options(workflow_id="j-1").start()
        with pytest.raises(LookupError):
            handle.result(timeout=60)
    told = [each for each in caplog.records if each.exc_info]
    assert [each.levelname for each in told] == ["INFO", "WARNING"]
    assert "Attempt 1 of 2 of step" in told[0].getMessage()
    assert "Run j-1 of" in told[1].getMessage()
    assert 'raise LookupError("nothing there")' in caplog.text


@pytest.mark.parametrize("where", ["a program", "a workflow"])
def test_run_whose_caller_gets_the_error_is_not_in_the_log_as_well(
    where: str, fresh_database: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    async def scene() -> None:
        app = AsyncHoldfast(fresh_database("sqlite"))

        @app.workflow
        async def look() -> None:
            raise LookupError("nothing there")

        @app.workflow
        async def careful() -> str:
            with pytest.raises(LookupError):
                await look()
            return "seen"

        async with app:
            if where == "a workflow":
                assert await careful() == "seen"
            else:
                with pytest.raises(LookupError):
                    await look()

    asyncio.run(scene())
    assert "ended with an error" not in caplog.text


def test_run_whose_caller_went_away_leaves_its_traceback_in_the_log(
    fresh_database: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    async def scene() -> None:
        app, begun, go = AsyncHoldfast(fresh_database("sqlite")), asyncio.Event(), asyncio.Event()

        @app.workflow(name="look")
        async def look() -> None:
            begun.set()
            await go.wait()
            raise LookupError("nothing there")

        async with app:
            caller = asyncio.create_task(look.options(workflow_id="l-1")())
            await begun.wait()
            caller.cancel()
            with pytest.raises(asyncio.CancelledError):
                await caller
            go.set()
            with pytest.raises(LookupError):
                await app.retrieve_workflow("l-1").result(timeout=60)

    asyncio.run(scene())
    assert "Run l-1 of look ended with an error" in caplog.text


class Doubling:
    """An object that is called like an async function."""

    async def __call__(self, number: int) -> int:
        await asyncio.sleep(0)
        return 2 * number


def test_object_whose_call_is_async_is_an_async_step_and_workflow(fresh_database: Callable[[str], str]) -> None:
    async def scene() -> None:
        app = AsyncHoldfast(fresh_database("sqlite"))
        step: Any = app.step(name="double")(Doubling())
        again: Any = app.workflow(name="again")(Doubling())

        @app.workflow
        async def four() -> list[int]:
            return [await step(2), await again(2), await app.run_step(Doubling(), 2)]

        async with app:
            handle = await four.start()
            assert await handle == [4, 4, 4]
            names = [each.function_name for each in await app.list_steps(handle.workflow_id)]
            assert names == ["double", "again", "holdfast.get_result", "Doubling"]

    asyncio.run(scene())


def test_parts_that_come_wrongly_are_refused_with_the_way_to_write_them(fresh_database: Callable[[str], str]) -> None:
    async def price(number: int) -> int:
        return number

    async def scene() -> None:
        app: Any = AsyncHoldfast(fresh_database("sqlite"))
        async with app:
            with pytest.raises(MisuseError, match=r"was given a list of parts: write `gather\(\*parts\)`"):
                await app.gather([price(1), price(2)])
            with pytest.raises(MisuseError, match=r"takes a function and its arguments.*`run_step\(price, 1\)`"):
                await app.run_step(price(1))

    asyncio.run(scene())
    app: Any = Holdfast(fresh_database("sqlite"))
    with app:
        with pytest.raises(MisuseError, match=r"was given a tuple of parts"):
            app.gather((lambda: 1, lambda: 2))
        with pytest.raises(MisuseError, match=r"takes a function and its arguments, not 3"):
            app.run_step(3)


@pytest.mark.parametrize("what", ["step", "workflow"])
def test_call_that_nobody_awaits_is_warned_of_by_the_name_of_what_was_called(
    what: str, fresh_database: Callable[[str], str]
) -> None:
    async def scene() -> None:
        app: Any = AsyncHoldfast(fresh_database("sqlite"))

        async def charge() -> None: ...

        called = getattr(app, what)(name="charge")(charge)
        async with app:
            with pytest.warns(RuntimeWarning, match="coroutine 'charge' was never awaited"):
                called()

    asyncio.run(scene())


def test_call_that_is_awaited_after_the_application_was_closed_is_refused(fresh_database: Callable[[str], str]) -> None:
    app = Holdfast(fresh_database("sqlite"))

    @app.workflow(name="later")
    async def later() -> int:
        return 1

    with app:
        call = later()
    with pytest.raises(NotInitialized, match="The workflow 'later'"):
        asyncio.run(call)


def test_value_that_cannot_be_stored_is_refused_with_the_function_it_belongs_to(
    fresh_database: Callable[[str], str],
) -> None:
    app = Holdfast(fresh_database("sqlite"))
    said = "at \\$.at: the type object has no portable form.*It stands in the result of '{}'"

    @app.step(name="find")
    def find() -> Any:
        return {"at": object()}

    @app.transaction(name="read")
    def read(_transaction: Any) -> Any:
        return {"at": object()}

    @app.workflow(name="search")
    def search(what: Any) -> Any:
        ways: dict[str, Any] = {"find": find, "read": read, "search": lambda: {"at": object()}}
        return ways[what]()

    with app:
        app.register_queue("q")
        for name in ("find", "read", "search"):
            with pytest.raises(CannotSerialize, match=said.format(name)):
                search(name)
        calls: list[Any] = [search, search.start, search.options(queue_name="q").enqueue]
        for call in calls:
            with pytest.raises(CannotSerialize, match=r"positionalArgs\[0\].*It stands in the call of 'search'"):
                call(object())
        assert app.list_workflows(name="search", status=["PENDING", "ENQUEUED"]) == []


def test_messages_that_are_none_are_refused_before_any_is_sent(fresh_database: Callable[[str], str]) -> None:
    app = Holdfast(fresh_database("sqlite"))

    @app.workflow
    def waits() -> None: ...

    with app:
        run, wrong = waits.start().workflow_id, cast("Any", ("a", 1))
        with pytest.raises(MisuseError, match=r"takes messages, as in \[Message\(workflow_id, 1\)\], not \('a', 1\)"):
            app.send_many([Message(run, "hello"), wrong])
        assert app.get_all_notifications(run) == []


def test_saga_that_could_undo_nothing_is_refused_where_it_is_written(fresh_database: Callable[[str], str]) -> None:
    async def scene() -> list[str]:
        app, undone = AsyncHoldfast(fresh_database("sqlite")), list[str]()

        @app.step
        async def release(item: str) -> None:
            undone.append(item)

        @app.workflow
        async def not_awaited() -> None:
            with app.saga():
                pass

        @app.workflow
        async def called_at_once() -> None:
            async with app.saga() as saga:
                saga.undo(release, "boots")
                saga.undo(cast("Any", release("gloves")))

        async with app:
            with pytest.raises(MisuseError, match=r"write `async with app\.saga"):
                await not_awaited()
            with pytest.raises(MisuseError, match="takes what is to be called"):
                await called_at_once()
        return undone

    assert asyncio.run(scene()) == ["boots"]
