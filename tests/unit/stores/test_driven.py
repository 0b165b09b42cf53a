"""A loop that is run by the thread that asks."""

from __future__ import annotations

import asyncio
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from holdfast.stores.driven import Driven, DrivenSides

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

PATIENCE = 60


class Store:
    """Says on which thread it works, and counts how often it was closed."""

    closed = 0

    async def close(self) -> None:
        type(self).closed += 1


async def thread_of(_: Store) -> int:
    await asyncio.sleep(0)
    return threading.get_ident()


def elsewhere(_: Callable[[Store], Awaitable[int]]) -> int:
    return -1


@pytest.fixture
def opened() -> list[Store]:
    """The stores that were opened."""
    return []


@pytest.fixture
def driven(opened: list[Store]) -> Driven[Store]:
    """A loop for them."""

    async def open_() -> Store:
        opened.append(Store())
        return opened[-1]

    return Driven(open_)


def test_work_is_done_on_the_thread_that_asks(driven: Driven[Store], opened: list[Store]) -> None:
    with ThreadPoolExecutor(1) as pool:
        here, there = (driven.call(thread_of, elsewhere), pool.submit(driven.call, thread_of, elsewhere).result())
        other = pool.submit(threading.get_ident).result()
    assert (here, there) == (threading.get_ident(), other)
    assert len(opened) == 1
    driven.close()


def test_thread_without_the_turn_does_it_otherwise(driven: Driven[Store]) -> None:
    begun, go_on = threading.Event(), threading.Event()

    async def slow(_: Store) -> int:
        begun.set()
        assert go_on.wait(PATIENCE)
        return 1

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(driven.call, slow, elsewhere)
        assert begun.wait(PATIENCE)
        assert driven.call(thread_of, elsewhere) == -1
        go_on.set()
        assert first.result(PATIENCE) == 1
    driven.close()


def test_thread_with_a_loop_does_it_otherwise(driven: Driven[Store]) -> None:
    async def inside() -> int:
        return driven.call(thread_of, elsewhere)

    assert asyncio.run(inside()) == -1


def test_store_that_cannot_be_opened_leaves_nothing_open() -> None:
    async def refused() -> Store:
        raise OSError("no such server")

    shut = Driven(refused)
    for _ in range(2):
        with pytest.raises(OSError, match="no such server"):
            shut.call(thread_of, elsewhere)
    assert shut._loop is None


def test_error_is_raised_and_the_turn_is_over(driven: Driven[Store]) -> None:
    async def wrong(_: Store) -> int:
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        driven.call(wrong, elsewhere)
    assert driven.call(thread_of, elsewhere) == threading.get_ident()
    driven.close()


def test_interrupted_work_is_not_left_behind(driven: Driven[Store]) -> None:
    ended: list[str] = []

    async def interrupted(_: Store) -> int:
        asyncio.get_running_loop().call_soon(_interrupt)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")
        return 0

    with pytest.raises(KeyboardInterrupt):
        driven.call(interrupted, elsewhere)
    assert ended == ["cancelled"]
    assert driven.call(thread_of, elsewhere) == threading.get_ident()
    driven.close()


def test_store_that_an_interrupt_has_left_in_nobody_knows_which_state_is_not_used_again(
    driven: Driven[Store], opened: list[Store]
) -> None:
    here, there = socket.socketpair()

    async def interrupted(_: Store) -> int:
        connected = await asyncio.open_connection(sock=there)
        asyncio.get_running_loop().call_soon(_interrupt)
        await asyncio.Event().wait()
        return len(connected)

    with pytest.raises(KeyboardInterrupt):
        driven.call(interrupted, elsewhere)
    with here:
        assert here.recv(1) == b""  # its connection is cut
    assert driven.call(thread_of, elsewhere) == threading.get_ident()
    assert len(opened) == 2
    driven.close()


def _interrupt() -> None:
    raise KeyboardInterrupt


def test_work_that_has_not_begun_when_it_is_interrupted_is_not_left_behind(driven: Driven[Store]) -> None:
    async def interrupted_soon(_: Store) -> int:
        asyncio.get_running_loop().call_soon(_interrupt)
        return 1

    assert driven.call(interrupted_soon, elsewhere) == 1
    with pytest.raises(KeyboardInterrupt):  # as the loop begins to run for the next one, and before that one
        driven.call(thread_of, elsewhere)
    assert driven.call(thread_of, elsewhere) == threading.get_ident()
    driven.close()


class Line(Store):
    """One end of a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self._writer = reader, writer

    async def close(self) -> None:
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()


def test_connection_that_ended_while_nobody_asked_is_known_before_the_next_call() -> None:
    here, there = socket.socketpair()

    async def open_() -> Line:
        return Line(*await asyncio.open_connection(sock=here))

    async def is_over(line: Line) -> bool:
        return line.reader.at_eof()

    driven = Driven(open_, silence=0)
    assert not driven.call(is_over, lambda _: True)
    there.close()
    assert driven.call(is_over, lambda _: False)
    driven.close()


def test_closed_where_a_loop_runs_it_is_ended_elsewhere(driven: Driven[Store]) -> None:
    before = Store.closed
    driven.call(thread_of, elsewhere)

    async def inside() -> None:
        driven.close()

    asyncio.run(inside())
    assert Store.closed == before + 1


def test_sides_let_the_first_thread_drive_and_others_go_the_common_way(opened: list[Store]) -> None:
    before = Store.closed

    async def open_() -> Store:
        opened.append(Store())
        return opened[-1]

    sides = DrivenSides(open_, open_)
    begun, go_on = threading.Event(), threading.Event()

    async def slow(_: Store) -> int:
        begun.set()
        assert go_on.wait(PATIENCE)
        return threading.get_ident()

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(sides.call, slow)
        assert begun.wait(PATIENCE)
        there = sides.call(thread_of)
        go_on.set()
        driver = first.result(PATIENCE)
        assert driver == pool.submit(threading.get_ident).result(PATIENCE)
    assert there not in {driver, threading.get_ident()}
    sides.close()
    assert (len(opened), Store.closed - before) == (2, 2)


def test_closed_one_opens_again(driven: Driven[Store], opened: list[Store]) -> None:
    before = Store.closed
    driven.call(thread_of, elsewhere)
    driven.close()
    driven.close()
    driven.call(thread_of, elsewhere)
    driven.close()
    assert (len(opened), Store.closed - before) == (2, 2)
