"""I9: connections are cut before, in and after COMMIT while workflows run; nothing is lost, doubled or refused."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from holdfast import AsyncHoldfast
from holdfast.db import ConnectionManager
from holdfast.testing.contract.venue import until
from holdfast.testing.proxy import Cut, Proxy

if TYPE_CHECKING:
    from collections.abc import Callable

# What is on the wire when the pipeline commits, or when a claim or a beat is made.
TRIGGERS = {
    "postgres-commit": ("postgres", b"COMMIT\x00"),
    "postgres-statement": ("postgres", b"__asyncpg_stmt_"),
    "mariadb-commit": ("mariadb", b"\x03COMMIT"),
    "mariadb-beat": ("mariadb", b"beat_seq = "),
}


class Load:
    """Workflows with steps and children, and how often each step was carried out."""

    def __init__(self, url: str) -> None:
        self.done: dict[str, int] = {}
        self.app = AsyncHoldfast(url, lease=2.0, application_version="tested")
        app = self.app

        @app.step
        async def work(name: str, number: int) -> int:
            self.done[name] = self.done.get(name, 0) + 1
            await asyncio.sleep(0)
            return number

        @app.workflow
        async def child(number: int) -> int:
            return await work(f"child-{number}", number)

        @app.workflow
        async def parent(number: int) -> int:
            first = await work(f"first-{number}", number)
            handle = await child.start(number)
            both = await app.gather(work(f"left-{number}", number), work(f"right-{number}", number))
            return first + sum(both) + await handle.result()

        self.parent = parent

    async def run(self, enough: Callable[[], bool]) -> int:
        """Run a hundred at a time until it is *enough*; return how many ended, each with its own result."""
        ended = 0
        while ended == 0 or not enough():
            numbers = range(ended, ended + 100)
            assert list(await asyncio.gather(*map(self._one, numbers))) == [4 * number for number in numbers]
            ended += 100
        return ended

    async def _one(self, number: int) -> int:
        handle = await self.parent.options(workflow_id=f"parent-{number}").start(number)
        return await handle.result()


async def rows_of(manager: ConnectionManager, kind: str, table: str) -> list[dict[str, Any]]:
    return await manager.fetch(f"SELECT * FROM {'holdfast.' if kind == 'postgres' else ''}{table}")


@pytest.mark.parametrize("way", list(TRIGGERS))
@pytest.mark.parametrize("cut", list(Cut))
def test_i9_cut_connections_lose_and_double_nothing(way: str, cut: Cut, fresh_database: Callable[[str], str]) -> None:
    kind, trigger = TRIGGERS[way]
    url = fresh_database(kind)
    port = urlsplit(url).port or 0

    async def scene() -> None:
        async with Proxy("127.0.0.1", port) as proxy, ConnectionManager(url) as direct:
            load = Load(url.replace(f":{port}/", f":{proxy.port}/"))
            async with load.app:
                working = asyncio.create_task(load.run(lambda: proxy.cuts >= 5))
                for skip in (0, 2, 5, 1, 3):
                    wanted = proxy.cuts + 1
                    proxy.arm(trigger, cut, skip=skip if "beat" not in way else 0)
                    await until(lambda: proxy.cuts >= wanted or working.done())  # noqa: B023 -- awaited
                amount = await working
            runs = await rows_of(direct, kind, "workflow_status")
            assert len(runs) == 2 * amount
            assert {(run["status"], run["recovery_attempts"]) for run in runs} == {("SUCCESS", 0)}
            steps = await rows_of(direct, kind, "operation_outputs")
            assert len({(step["workflow_uuid"], step["identity"]) for step in steps}) == len(steps) == 6 * amount
            assert len(load.done) == 4 * amount
            assert set(load.done.values()) == {1}  # nobody died, so nothing had to be done again

    asyncio.run(scene())


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_i9_all_connections_cut_again_and_again_lose_nothing(kind: str, fresh_database: Callable[[str], str]) -> None:
    url = fresh_database(kind)
    port = urlsplit(url).port or 0

    async def scene() -> None:
        async with Proxy("127.0.0.1", port) as proxy, ConnectionManager(url) as direct:
            load = Load(url.replace(f":{port}/", f":{proxy.port}/"))
            async with load.app:
                turns = 0
                working = asyncio.create_task(load.run(lambda: turns >= 8))
                while turns < 8:
                    before = len(load.done)
                    proxy.refusing = turns % 2 == 1
                    proxy.cut_all()
                    await asyncio.sleep(0.01)
                    proxy.refusing = False
                    await until(lambda: len(load.done) > before or working.done())  # noqa: B023 -- awaited
                    turns += 1
                amount = await working
            runs = await rows_of(direct, kind, "workflow_status")
            assert {run["status"] for run in runs} == {"SUCCESS"}
            assert len(runs) == 2 * amount

    asyncio.run(scene())
