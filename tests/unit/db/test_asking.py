"""A thread that asks a loop is told the outcome; one that is interrupted leaves nothing behind, and nothing locked."""

from __future__ import annotations

import asyncio
import contextvars
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.db.blocking.asking import ask
from holdfast.errors import NotInitialized

if TYPE_CHECKING:
    from collections.abc import Iterator

CLOSED = "It is closed."


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


async def same(value: Any) -> Any:
    await asyncio.sleep(0)
    return value


def test_outcome_is_told_an_error_that_is_a_value_too(loop: asyncio.AbstractEventLoop) -> None:
    error = LookupError("a value")
    assert ask(loop, same(3), closed=CLOSED) == 3
    assert ask(loop, same(error), closed=CLOSED) is error

    async def raising() -> None:
        raise error

    with pytest.raises(LookupError, match="a value"):
        ask(loop, raising(), closed=CLOSED)


def test_work_sees_the_context_of_the_thread_that_asks(loop: asyncio.AbstractEventLoop) -> None:
    said: contextvars.ContextVar[str] = contextvars.ContextVar("said", default="nothing")

    async def hears() -> str:
        return said.get()

    said.set("here")
    assert ask(loop, hears(), closed=CLOSED) == "here"


def test_work_that_is_cancelled_on_the_loop_says_so(loop: asyncio.AbstractEventLoop) -> None:
    async def cancels() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(60)

    with pytest.raises(asyncio.CancelledError):
        ask(loop, cancels(), closed=CLOSED)


def test_loop_that_has_ended_is_said_to_be_closed() -> None:
    ended = asyncio.new_event_loop()
    ended.close()
    with pytest.raises(NotInitialized, match=CLOSED):
        ask(ended, same(1), closed=CLOSED)


def test_thread_that_is_interrupted_cancels_its_work_and_the_loop_goes_on(loop: asyncio.AbstractEventLoop) -> None:
    cancelled, main = threading.Event(), threading.main_thread().ident or 0
    asked = list[int]()

    async def waits() -> None:
        try:
            # Again and again: Python takes notice of one that comes just before a thread begins to wait with the next.
            while True:
                signal.pthread_kill(main, signal.SIGUSR1)  # it waits for this
                await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    def interrupt(*_: object) -> None:
        if asked:
            asked.clear()
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        for number in range(50):
            cancelled.clear()
            asked.append(number)
            with pytest.raises(KeyboardInterrupt):
                ask(loop, waits(), closed=CLOSED)
            assert cancelled.wait(60)
            assert ask(loop, same(1), closed=CLOSED) == 1
    finally:
        signal.signal(signal.SIGUSR1, before)
