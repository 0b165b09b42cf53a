"""The event log under fire: several processes at once, one killed at each place of a commit, a connection cut."""

from __future__ import annotations

import asyncio
import signal
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from holdfast.stores import StoreFactory
from holdfast.testing.contract.venue import until
from holdfast.testing.proxy import Cut, Proxy
from holdfast.testing.workers import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.testing.nursery import Nursery

PROGRAM = Path(__file__).parent / "programs" / "event_writer.py"
POINTS = ("pipeline.before_commit", "pipeline.after_commit")

# What is on the wire when appends are committed: by a COMMIT of its own, or by the one statement that writes it all.
COMMITS = {
    "postgres-expected": ("postgres", b"COMMIT\x00"),
    "postgres": ("postgres", b"__asyncpg_stmt_"),
    "mariadb-expected": ("mariadb", b"\x03COMMIT"),
    "mariadb": ("mariadb", b"\x03COMMIT"),
}
EVERY_KIND = pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb"])
PATIENCE = 120


@pytest.fixture
def begin(nursery: Nursery) -> Iterator[Callable[..., Worker]]:
    """Call with a URL, a name and settings for a process that appends; it is killed afterwards."""
    with ExitStack() as afterwards:

        def start(url: str, name: str, **settings: Any) -> Worker:
            return afterwards.enter_context(Worker(PROGRAM, nursery, url=url, name=name, **settings))

        yield start


def said(process: Worker, code: int = 0) -> dict[str, list[int]]:
    """Return the numbers of each append the process has acknowledged, when it has ended."""
    assert process.end(patience=PATIENCE) == code, process.log()
    return dict(process.heard())


async def read(url: str) -> list[dict[str, Any]]:
    async with StoreFactory(url) as factory:
        return await (await factory.create_event_store()).get("s")


def check(events: list[dict[str, Any]], acknowledged: dict[str, list[int]]) -> None:
    """No gap, no append twice or in parts, and everything acknowledged is where it was said to be."""
    assert [event["sequence"] for event in events] == list(range(1, len(events) + 1))
    stored: dict[str, list[int]] = {}
    for event in events:
        mark, place = event["data"]
        numbers = stored.setdefault(mark, [])
        assert place == len(numbers), f"{mark} is stored twice, or out of order"
        numbers.append(event["sequence"])
    for mark, numbers in stored.items():
        assert len(numbers) == 1 + int(mark.rpartition("-")[2]) % 3, f"a part of {mark} is stored"
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert {mark: stored.get(mark) for mark in acknowledged} == acknowledged


@EVERY_KIND
def test_processes_append_to_one_stream_without_gaps(
    kind: str, fresh_database: Callable[[str], str], begin: Callable[..., Worker]
) -> None:
    url = fresh_database(kind)

    async def followed() -> list[dict[str, Any]]:
        async with StoreFactory(url) as factory:
            store = await factory.create_event_store()
            found = []
            async for event in store.follow("s"):
                found.append(event)
                if len(found) == expected:
                    break
            return found

    asyncio.run(read(url))  # so that nobody has to make the tables first
    expected = 3 * 5 * sum(1 + number % 3 for number in range(6))
    writers = [begin(url, f"w{n}", tasks=5, appends=6) for n in range(3)]
    events = asyncio.run(asyncio.wait_for(followed(), PATIENCE))
    acknowledged = {mark: numbers for writer in writers for mark, numbers in said(writer).items()}
    assert len(acknowledged) == 3 * 5 * 6
    assert events == asyncio.run(read(url))
    check(events, acknowledged)


@EVERY_KIND
@pytest.mark.parametrize("point", POINTS)
def test_killed_process_leaves_whole_appends(
    kind: str, point: str, fresh_database: Callable[[str], str], begin: Callable[..., Worker]
) -> None:
    url = fresh_database(kind)
    doomed = begin(url, "doomed", tasks=3, appends=6, point=point, at=4)
    acknowledged = said(doomed, -signal.SIGKILL)
    check(asyncio.run(read(url)), acknowledged)
    heir = begin(url, "heir", tasks=2, appends=2)
    acknowledged |= said(heir)
    check(asyncio.run(read(url)), acknowledged)


@pytest.mark.parametrize("way", list(COMMITS))
def test_append_whose_connection_is_cut_happens_once(way: str, fresh_database: Callable[[str], str]) -> None:
    kind, trigger = COMMITS[way]
    url = fresh_database(kind)
    port = urlsplit(url).port or 0

    async def scene() -> None:
        async with Proxy("127.0.0.1", port) as proxy:
            through = StoreFactory(url.replace(f":{port}/", f":{proxy.port}/"))
            store = await through.create_event_store()
            acknowledged = {}
            for number in range(9):
                mark, size = f"cut-{number}", 1 + number % 3
                at = await store.last_sequence("s") if way.endswith("expected") else None
                proxy.arm(trigger, list(Cut)[number // 3])
                events = [{"type": "e", "data": [mark, k]} for k in range(size)]
                stored = await store.append("s", events, expected_sequence=at)
                acknowledged[mark] = [event["sequence"] for event in stored]
            await through.close()
            assert proxy.cuts >= 9
            check(await read(url), acknowledged)

    asyncio.run(scene())


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_follower_waits_for_a_database_that_is_away(kind: str, fresh_database: Callable[[str], str]) -> None:
    url = fresh_database(kind)
    port = urlsplit(url).port or 0

    async def scene() -> None:
        async with Proxy("127.0.0.1", port) as proxy, StoreFactory(url) as direct:
            writer = await direct.create_event_store()
            await writer.append("s", [{"type": "before"}])
            through = StoreFactory(url.replace(f":{port}/", f":{proxy.port}/"), connect_timeout=1.0)
            reader = await through.create_event_store()
            heard: list[int] = []

            async def follow() -> None:
                async for event in reader.follow("s"):
                    heard.append(event["sequence"])
                    if len(heard) == 7:
                        return

            following = asyncio.create_task(follow())
            for _ in range(3):
                heard_before = len(heard)
                proxy.refusing = True
                proxy.cut_all()
                await writer.append("s", [{"type": "meanwhile"}] * 2)
                proxy.refusing = False
                await until(lambda: len(heard) > heard_before)  # noqa: B023 -- awaited before it changes
            await asyncio.wait_for(following, PATIENCE)
            assert heard == list(range(1, 8))
            await through.close()

    asyncio.run(scene())
