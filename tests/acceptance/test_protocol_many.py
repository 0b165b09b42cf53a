"""I11: ten thousand runs in flight in one process, without an error; claims stop at capacity."""

from __future__ import annotations

import asyncio
import resource
from typing import TYPE_CHECKING

import pytest

from holdfast import AsyncHoldfast
from holdfast.testing.contract.venue import until

if TYPE_CHECKING:
    from collections.abc import Callable

MANY = 10_000


@pytest.mark.parametrize("kind", ["sqlite", "postgres", pytest.param("mariadb", marks=pytest.mark.soak)])
def test_i11_ten_thousand_runs_in_flight_end_without_an_error(
    kind: str, fresh_database: Callable[[str], str], record_property: Callable[[str, object], None]
) -> None:
    app = AsyncHoldfast(fresh_database(kind), lease=10)
    waiting = 0

    @app.step
    async def arrive(number: int) -> int:
        nonlocal waiting
        waiting += 1
        await gate.wait()
        return number

    @app.workflow
    async def patient(number: int) -> int:
        return await arrive(number)

    async def scene() -> list[int]:
        async with app:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            handles = await asyncio.gather(*(patient.start(number) for number in range(MANY)))
            await until(lambda: waiting == MANY)
            after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            record_property("kilobytes a run", round((after - before) / MANY, 1))
            print(f"{kind}: {(after - before) / MANY:.1f} kB a run in flight")
            gate.set()
            return list(await asyncio.gather(*(handle.result() for handle in handles)))

    gate = asyncio.Event()
    assert asyncio.run(scene()) == list(range(MANY))


def test_i11_claims_stop_at_capacity(fresh_database: Callable[[str], str]) -> None:
    url = fresh_database("sqlite")

    def application(most: int) -> tuple[AsyncHoldfast, list[int], asyncio.Event]:
        app = AsyncHoldfast(url, lease=30, max_runs=most, application_version="tested")
        begun: list[int] = []
        gate = asyncio.Event()

        @app.step(name="wait")
        async def wait(number: int) -> int:
            begun.append(number)
            await gate.wait()
            return number

        @app.workflow(name="waiting")
        async def waiting(number: int) -> int:
            return await wait(number)

        app.waiting = waiting  # type: ignore[attr-defined]
        return app, begun, gate

    async def scene() -> None:
        large, begun, _ = application(100)
        async with large:
            for number in range(20):
                await large.waiting.options(workflow_id=f"run-{number}").start(number)  # type: ignore[attr-defined]
            await until(lambda: len(begun) == 20)
        small, claimed, gate = application(5)
        async with small:
            await until(lambda: len(claimed) == 5)
            await small._engine.dispatch._look()
            assert len(claimed) == 5
            gate.set()
            await until(lambda: len(claimed) == 20)
            results = [await small.retrieve_workflow(f"run-{number}").result(timeout=60) for number in range(20)]
            assert results == list(range(20))

    asyncio.run(scene())
