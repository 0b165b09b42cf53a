"""Writes of many tasks: together where they can be, each with an outcome of its own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from holdfast.errors import QueryFailed, StorageError
from holdfast.stores import SQLiteCheckpointBackend
from holdfast.stores.flow.together import Together
from holdfast.testing.contract.store_flow_stage import checkpoint

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class Book:
    """Writes numbers, at most so many at once as the test lets through; refuses odd ones, and any batch with one."""

    def __init__(self) -> None:
        self.written: list[list[int]] = []
        self.open = asyncio.Event()

    async def one(self, number: int) -> bool:
        await self.open.wait()
        if number % 2:
            raise QueryFailed(f"{number} is odd")
        self.written.append([number])
        return True

    async def many(self, numbers: Sequence[int]) -> list[bool]:
        if any(number % 2 for number in numbers):
            raise QueryFailed("one of them is odd")
        self.written.append(list(numbers))
        return [number != 8 for number in numbers]


def test_writes_that_come_during_another_are_written_together() -> None:
    async def scene() -> tuple[list[bool | BaseException], list[list[int]]]:
        book = Book()
        together = Together(book.one, book.many, lambda _: 1)
        writes = [asyncio.create_task(together.write(number)) for number in (0, 2, 4, 6, 8)]
        await asyncio.sleep(0)
        writes[2].cancel()  # it was handed over: it is written all the same, and disturbs nobody
        book.open.set()
        outcomes = await asyncio.gather(*writes, return_exceptions=True)
        assert isinstance(outcomes.pop(2), asyncio.CancelledError)
        assert await together.write(10) is True
        return outcomes, book.written

    assert asyncio.run(scene()) == ([True, True, True, False], [[0], [2, 4, 6, 8], [10]])


def test_batch_that_is_refused_is_written_one_by_one() -> None:
    async def scene() -> list[str]:
        book = Book()
        together = Together(book.one, book.many, lambda _: 1)
        writes = [asyncio.create_task(together.write(number)) for number in (0, 1, 2, 3)]
        await asyncio.sleep(0)
        book.open.set()
        outcomes = await asyncio.gather(*writes, return_exceptions=True)
        await together.finish()
        assert book.written == [[0], [2]]
        return [str(outcome) for outcome in outcomes]

    assert asyncio.run(scene()) == ["True", "1 is odd", "True", "3 is odd"]


def test_batch_is_no_larger_than_it_may_be_and_one_always_fits() -> None:
    async def scene() -> list[list[int]]:
        book = Book()
        together = Together(book.one, book.many, lambda _: 3 * 1024 * 1024)
        writes = [asyncio.create_task(together.write(number)) for number in (0, 2, 4)]
        await asyncio.sleep(0)
        book.open.set()
        await asyncio.gather(*writes)
        return book.written

    assert asyncio.run(scene()) == [[0], [2], [4]]


def test_saves_of_one_moment_have_outcomes_of_their_own(tmp_path: Path) -> None:
    async def scene() -> tuple[int, int]:
        async with SQLiteCheckpointBackend(tmp_path / "flows.db") as backend:
            made = [checkpoint(id=str(number // 2)) for number in range(40)]  # of two with one id one is late
            outcomes = await asyncio.gather(*map(backend.asave, made), return_exceptions=True)
            assert len(await backend.alist_by_flow("flow", limit=None)) == 20
            late = sum(isinstance(each, StorageError) for each in outcomes)
            return late, sum(isinstance(each, str) for each in outcomes)

    assert asyncio.run(scene()) == (20, 20)
