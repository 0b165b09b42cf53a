"""A loop that is run by the thread that asks."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from holdfast.stores.threads.driven import Driven

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


def _interrupt() -> None:
    raise KeyboardInterrupt


def test_closed_one_opens_again(driven: Driven[Store], opened: list[Store]) -> None:
    before = Store.closed
    driven.call(thread_of, elsewhere)
    driven.close()
    driven.close()
    driven.call(thread_of, elsewhere)
    driven.close()
    assert (len(opened), Store.closed - before) == (2, 2)
