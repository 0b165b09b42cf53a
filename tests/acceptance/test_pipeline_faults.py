"""The pipeline under load while connections are cut, servers restart, transactions deadlock and processes compete."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from holdfast.db import ConnectionManager, Pipeline
from holdfast.errors import PipelineClosed, Retryable, TooLong
from holdfast.testing.contract.kinds import Counter
from holdfast.testing.contract.venue import apart, until
from holdfast.testing.ledger import Ledger
from holdfast.testing.proxy import Cut, Proxy

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.testing.servers import Server

FreshDatabase = Callable[[str], str]
SERVERS = pytest.mark.parametrize("kind", ["postgres", "mariadb"])

# What is on the wire when a batch is committed: by a COMMIT of its own, or by the one statement that writes it all.
COMMITS = {
    "postgres-commit": ("postgres", b"COMMIT\x00"),
    "postgres-lone-statement": ("postgres", b"__asyncpg_stmt_"),
    "mariadb-commit": ("mariadb", b"\x03COMMIT"),
}


async def empty_ledger(manager: ConnectionManager) -> Ledger:
    ledger = Ledger(manager.dialect)
    await ledger.create(manager)
    return ledger


async def load(pipeline: Pipeline, ledger: Ledger, *, writers: int, each: int, mixed: bool = False) -> list[str]:
    """Write from many tasks; return what was acknowledged, in any order."""
    counter = Counter()

    async def one(writer: int) -> list[str]:
        told = []
        for number in range(each):
            told.append(await pipeline.write(ledger, (f"{writer}-{number}", f"note {number}", number)))
            if mixed and (number + writer) % 2:  # so that both kinds come to stand in one batch
                assert await pipeline.write(counter, (number,)) == number * 10
        return told

    return [key for told in await asyncio.gather(*(one(writer) for writer in range(writers))) for key in told]


async def check(manager: ConnectionManager, ledger: Ledger, told: list[str], expected: int) -> None:
    rows = await ledger.entries(manager)
    found = [row["entry_key"] for row in rows]
    assert len(told) == len(set(told)) == expected
    assert sorted(found) == sorted(told)
    assert all(row["note"] == f"note {row['amount']}" for row in rows)


@pytest.mark.parametrize("way", list(COMMITS))
@pytest.mark.parametrize("cut", list(Cut))
def test_cut_commits_are_resolved_by_asking(way: str, cut: Cut, fresh_database: FreshDatabase) -> None:
    kind, trigger = COMMITS[way]
    url = fresh_database(kind)
    port = urlsplit(url).port or 0

    async def scene() -> None:
        async with Proxy("127.0.0.1", port) as proxy, ConnectionManager(url) as direct:
            ledger = await empty_ledger(direct)

            async def saboteur() -> None:
                for skip in (0, 1, 2, 3, 5):
                    wanted = proxy.cuts + 1
                    proxy.arm(trigger, cut, skip=skip)
                    await until(lambda: proxy.cuts >= wanted)  # noqa: B023 -- awaited before it changes

            mixed = way.endswith("commit")
            through = ConnectionManager(url.replace(f":{port}/", f":{proxy.port}/"))
            async with through as manager, Pipeline(manager) as pipeline:
                _, told = await asyncio.gather(saboteur(), load(pipeline, ledger, writers=20, each=30, mixed=mixed))
            assert proxy.cuts == 5
            await check(direct, ledger, told, 600)

    asyncio.run(scene())


@SERVERS
def test_all_connections_cut_again_and_again_lose_nothing(kind: str, fresh_database: FreshDatabase) -> None:
    url = fresh_database(kind)
    port = urlsplit(url).port or 0

    async def scene() -> None:
        async with Proxy("127.0.0.1", port) as proxy, ConnectionManager(url) as direct:
            ledger = await empty_ledger(direct)
            through = ConnectionManager(url.replace(f":{port}/", f":{proxy.port}/"))
            async with through as manager, Pipeline(manager) as pipeline:
                writing = asyncio.create_task(load(pipeline, ledger, writers=10, each=60))
                for turn in range(10):
                    commits = pipeline.commits
                    proxy.refusing = turn % 2 == 1
                    proxy.cut_all()
                    await asyncio.sleep(0.003)
                    proxy.refusing = False
                    await until(lambda: pipeline.commits > commits or writing.done())  # noqa: B023 -- awaited
                told = await writing
            await check(direct, ledger, told, 600)

    asyncio.run(scene())


@SERVERS
@pytest.mark.parametrize("immediate", [False, True])
def test_server_restarted_under_load_loses_nothing(
    kind: str, immediate: bool, own_server: Callable[..., Server]
) -> None:
    server = own_server(kind)

    async def scene() -> None:
        async with ConnectionManager(server.url) as manager:
            ledger = await empty_ledger(manager)
            async with Pipeline(manager) as pipeline:
                writing = asyncio.create_task(load(pipeline, ledger, writers=20, each=40))
                await until(lambda: pipeline.commits > 5)
                await asyncio.to_thread(server.restart, immediate=immediate)
                told = await writing
            await check(manager, ledger, told, 800)

    asyncio.run(scene())


@SERVERS
def test_close_with_the_server_away_says_what_is_not_confirmed(kind: str, own_server: Callable[..., Server]) -> None:
    server = own_server(kind)

    async def scene() -> None:
        manager = ConnectionManager(server.url)
        await manager.initialize()
        ledger = await empty_ledger(manager)
        pipeline = Pipeline(manager)
        await pipeline.open()
        await pipeline.write(ledger, ("before", "", 0))
        await asyncio.to_thread(server.kill)
        tasks = [asyncio.create_task(pipeline.write(ledger, (f"k{n}", "", 0))) for n in range(5)]
        thread = asyncio.create_task(asyncio.to_thread(pipeline.write_blocking, ledger, ("thread", "", 0)))
        await until(lambda: pipeline.unsettled == 6)
        await pipeline.close(timeout=0.1)
        outcomes = await asyncio.gather(*tasks, thread, return_exceptions=True)
        assert all(isinstance(outcome, PipelineClosed) for outcome in outcomes)
        assert all("not confirmed" in str(o) or "may or may not" in str(o) for o in outcomes)
        await manager.close()

    asyncio.run(scene())


@SERVERS
def test_deadlock_with_another_transaction_is_survived(kind: str, fresh_database: FreshDatabase) -> None:
    async def scene() -> None:
        async with ConnectionManager(fresh_database(kind)) as manager:
            ledger = await empty_ledger(manager)
            async with Pipeline(manager) as pipeline:
                for turn in range(2):
                    try:
                        async with manager.transaction() as transaction:
                            await ledger.apply(transaction, [(f"z{turn}", "", 0)])
                            rows = [(f"a{turn}", "", 0), (f"z{turn}", "", 0)]
                            writes = [asyncio.create_task(apart(pipeline.write(ledger, row))) for row in rows]
                            await until(lambda: pipeline.unsettled == 2)
                            await asyncio.sleep(0.05)  # for the batch to take its first row, or not: both are fine
                            await ledger.apply(transaction, [(f"a{turn}", "", 0)])
                    except Retryable:
                        pass  # the other one of the two was chosen
                    assert await asyncio.gather(*writes) == [f"a{turn}", f"z{turn}"]
            assert len(await ledger.entries(manager)) == 4

    asyncio.run(scene())


def test_operation_too_large_for_mariadb_fails_alone_and_blocks_nobody(fresh_database: FreshDatabase) -> None:
    async def scene() -> None:
        async with ConnectionManager(fresh_database("mariadb")) as manager:
            ledger = await empty_ledger(manager)
            async with Pipeline(manager) as pipeline:
                outcomes = await asyncio.gather(
                    pipeline.write(ledger, ("small", "", 0)),
                    pipeline.write(ledger, ("large", "x" * (17 * 1024 * 1024), 0)),
                    pipeline.write(ledger, ("other", "", 0)),
                    return_exceptions=True,
                )
                assert isinstance(outcomes[1], TooLong)
                assert list(outcomes[::2]) == ["small", "other"]
                # A batch whose rows fit one by one, but whose characters take four bytes each.
                wide = [pipeline.write(ledger, (f"w{n}", "🦀" * 100_000, 0)) for n in range(42)]
                assert len(await asyncio.gather(*wide)) == 42

    asyncio.run(scene())


def test_table_changed_under_the_pipeline_loses_nothing(fresh_database: FreshDatabase) -> None:
    async def scene() -> None:
        async with ConnectionManager(fresh_database("postgres")) as manager:
            ledger = await empty_ledger(manager)
            async with Pipeline(manager) as pipeline:
                writing = asyncio.create_task(load(pipeline, ledger, writers=10, each=50, mixed=True))
                for number in range(4):
                    commits = pipeline.commits
                    await manager.execute(f"ALTER TABLE holdfast_ledger ADD COLUMN extra{number} INTEGER")
                    await until(lambda: pipeline.commits > commits or writing.done())  # noqa: B023 -- awaited
                await check(manager, ledger, await writing, 500)

    asyncio.run(scene())


WRITER = """
import asyncio, sys
from holdfast.db import ConnectionManager
from holdfast.db import Pipeline
from holdfast.testing.ledger import Ledger

async def main(url, name):
    async with ConnectionManager(url) as manager:
        ledger = Ledger(manager.dialect)
        async with Pipeline(manager) as pipeline:
            print("ready", flush=True)
            sys.stdin.readline()
            async def one(task):
                for number in range(40):
                    await pipeline.write(ledger, (f"{name}-{task}-{number}", f"note {number}", number))
            await asyncio.gather(*(one(task) for task in range(10)))
    print("done", flush=True)

asyncio.run(main(sys.argv[1], sys.argv[2]))
"""


def test_processes_that_share_a_sqlite_file_lose_and_double_nothing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shared.sqlite"

    async def scene() -> None:
        async with ConnectionManager(url) as manager:
            ledger = await empty_ledger(manager)
            children = [await _child(url, name) for name in ("left", "right")]
            for child in children:
                child.stdin.write(b"go\n")
            for number in range(20):
                async with manager.transaction() as transaction:
                    [before] = await transaction.fetch("SELECT COUNT(*) AS n FROM holdfast_ledger")
                    await ledger.apply(transaction, [(f"block-{number}", f"note {number}", number)])
                    [after] = await transaction.fetch("SELECT COUNT(*) AS n FROM holdfast_ledger")
                    assert after["n"] == before["n"] + 1
            for child in children:
                out, err = await child.communicate()
                assert child.returncode == 0, err.decode()
                assert out.decode().split() == ["done"]
            names = [f"{side}-{t}-{n}" for side in ("left", "right") for t in range(10) for n in range(40)]
            await check(manager, ledger, [*names, *(f"block-{n}" for n in range(20))], 820)

    asyncio.run(scene())


async def _child(url: str, name: str) -> Any:
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WRITER, url, name, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stdout is not None
    assert await child.stdout.readline() == b"ready\n"
    return child
