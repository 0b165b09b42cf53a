"""Dead letters: single calls beside Baldur, many at once, and what screens ask of a million rows.

Promised: three times as fast as the peer, `acquire_due` under 5 ms with 100,000 rows, and the queries of screens under
20 ms with 1,000,000 rows on PostgreSQL and SQLite. Both sides make the same calls with the same data, one after the
other, through the sync class, and a hundred at once: ours as tasks, through the async class; the peer, which has none,
in threads. Both write to the same server, or to files of their own that are synced with every commit. Redis is measured
twice: as it is usually set up, where it syncs its log every second, and syncing every write before it answers. Where
all databases are measured, MariaDB is left out of the large tables.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from contextlib import AsyncExitStack, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import redis
from yard.databases import SQL, makers
from yard.machine import load
from yard.options import Options
from yard.peers import peer
from yard.table import print_table

from holdfast.db import ConnectionManager, DialectName
from holdfast.model.dead_letter import FailedOperationData
from holdfast.model.world import RealWorld
from holdfast.stores import (
    AsyncFailedOperationRepository,
    AsyncInMemoryFailedOperationRepository,
    AsyncRedisDLQRepository,
    AsyncSQLFailedOperationRepository,
    DBDeadLetterQueue,
    InMemoryFailedOperationRepository,
    RedisDLQRepository,
    RedisLink,
    SQLFailedOperationRepository,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Awaitable, Callable, Iterator

WHERE = ("memory", "redis", *SQL)
_AT_ONCE, _TURNS = 100, 7
_DATA = {"x": "y" * 200}
_PEER = ["baldur-framework==1.17.1", "psycopg2-binary", "redis"]
_DOMAINS, _TYPES = 10, 20
_SYNCS = ("everysec", "always")  # appendfsync: what is usual first


def _sync(url: str) -> Any:
    if url == "memory":
        return InMemoryFailedOperationRepository()
    return RedisDLQRepository(url) if url.startswith("redis") else SQLFailedOperationRepository(url)


def _spans_ms(work: Callable[[Any], Any], given: Any) -> float:
    spans = []
    for each in given:
        begun = time.perf_counter()
        work(each)
        spans.append((time.perf_counter() - begun) * 1000)
    return statistics.median(spans)


def _alone(url: str, calls: int) -> dict[str, float]:
    """Return the median milliseconds of a create, and of an acquire with its complete.

    Who replays has not made the letters, as it is when that is another process; in memory there is no other.
    """
    ids: list[str] = []
    with _sync(url) as makes:
        create = _spans_ms(lambda _: ids.append(makes.create("d", "t", "boom", request_data=_DATA).id), range(calls))
        if url == "memory":
            return {"create": create, "replay": _replay_ms(makes, ids)}
    with _sync(url) as letters:
        return {"create": create, "replay": _replay_ms(letters, ids)}


def _replay_ms(letters: Any, ids: list[str]) -> float:
    def replay(entry: str) -> None:
        assert letters.try_acquire_for_replay(entry, 3) is not None
        assert letters.complete_replay(entry, True, "replayed")

    return _spans_ms(replay, ids)


async def opened(url: str, stack: AsyncExitStack) -> AsyncFailedOperationRepository:
    """Return a repository at *url*, open until *stack* is left."""
    letters: AsyncFailedOperationRepository
    if url == "memory":
        letters = AsyncInMemoryFailedOperationRepository()
    elif url.startswith("redis"):
        letters = AsyncRedisDLQRepository(await stack.enter_async_context(RedisLink(url)))
    else:
        manager = await stack.enter_async_context(ConnectionManager(url))
        letters = AsyncSQLFailedOperationRepository(manager)
    return await stack.enter_async_context(letters)


async def _together(url: str, calls: int) -> dict[str, float]:
    """Return how many milliseconds each takes of those that a hundred tasks make at the same time."""
    async with AsyncExitStack() as stack:
        letters = await opened(url, stack)
        ids: list[str] = []

        async def create() -> None:
            ids.append((await letters.create("d", "t", "boom", request_data=_DATA)).id)

        async def replay() -> None:
            entry = ids.pop()
            assert await letters.try_acquire_for_replay(entry, 3) is not None
            assert await letters.complete_replay(entry, True, "replayed")

        async def many(work: Callable[[], Awaitable[None]]) -> float:
            left = iter(range(calls))

            async def one() -> None:
                for _ in left:
                    await work()

            begun = time.perf_counter()
            await asyncio.gather(*(one() for _ in range(_AT_ONCE)))
            return (time.perf_counter() - begun) * 1000 / calls

        return {"create": await many(create), "replay": await many(replay)}


async def _fill(manager: ConnectionManager, rows: int) -> None:
    """Write rows and counts with plain SQL: ten domains, twenty failure types, most of them resolved."""
    status = "CASE WHEN n % 50 = 0 THEN 'pending' WHEN n % 50 = 1 THEN 'requires_review' ELSE 'resolved' END"
    at = {
        DialectName.SQLITE: "strftime('%Y-%m-%dT%H:%M:%f000+00:00', 1800000000 + n, 'unixepoch')",
        DialectName.POSTGRES: "to_char(to_timestamp(1800000000 + n) AT TIME ZONE 'UTC',"
        ' \'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"\')',
        DialectName.MYSQL: "DATE_FORMAT(TIMESTAMP'2027-01-15 08:00:00' + INTERVAL n SECOND,"
        " '%Y-%m-%dT%H:%i:%s.%f+00:00')",
    }[manager.dialect]
    series = {
        DialectName.SQLITE: "WITH RECURSIVE s(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM s WHERE n < {0} - 1)",
        DialectName.POSTGRES: "WITH s AS (SELECT n FROM generate_series(0, {0} - 1) AS n)",
        DialectName.MYSQL: "WITH s AS (SELECT seq AS n FROM seq_0_to_{1})",
    }[manager.dialect].format(rows, rows - 1)
    table = "holdfast.holdfast_dlq" if manager.dialect is DialectName.POSTGRES else "holdfast_dlq"
    text = {DialectName.MYSQL: "CONCAT"}.get(manager.dialect, "")
    name = f"{text}('d', n % {_DOMAINS})" if text else f"'d' || (n % {_DOMAINS})"
    kind = f"{text}('t', n % {_TYPES})" if text else f"'t' || (n % {_TYPES})"
    ident = f"{text}('id-', n)" if text else "'id-' || n"
    resolved = f"CASE WHEN n % 50 > 1 THEN {at} END"
    selected = f"SELECT {ident}, 'w', 'boom', 'null', {at}, {status}, {name}, {kind}, {at}, {resolved}, '', 2 FROM s"
    into = (
        f"INSERT INTO {table} (id, workflow_id, error, payload, created_at, status, domain, failure_type, updated_at,"
        " resolved_at, change_key, max_retries)"
    )
    await manager.execute(
        f"{into} {series} {selected}" if manager.dialect is DialectName.MYSQL else f"{series} {into} {selected}"
    )
    if manager.dialect is DialectName.SQLITE:
        return  # its triggers have counted
    await manager.execute(
        f"INSERT INTO {table}_counts (domain, failure_type, status, slot, number)"
        f" SELECT domain, failure_type, status, 0, COUNT(*) FROM {table} GROUP BY domain, failure_type, status"
    )


def _screens(letters: AsyncFailedOperationRepository) -> dict[str, Callable[[], Awaitable[Any]]]:
    return {
        "find, newest 100": letters.find,
        "find, pending of a domain": lambda: letters.find(status="pending", domain="d0"),
        "find, a status nobody has": lambda: letters.find(status="rejected"),
        "find, a domain": lambda: letters.find(domain="d0"),
        "find, a failure type": lambda: letters.find(failure_type="t7"),
        "find, failure type and status": lambda: letters.find(failure_type="t0", status="pending"),
        "find, failure type of another domain": lambda: letters.find(failure_type="t7", domain="d0", limit=100),
        "find_by_status, oldest pending": lambda: letters.find_by_status("pending"),
        "find_replayable": lambda: letters.find_replayable(2, "d0"),
        "find_page, newest": letters.find_page,
        "count": letters.count,
        "count, three filters": lambda: letters.count(status="pending", domain="d0", failure_type="t0"),
        "count_all": letters.count_all,
        "get_facet_counts": lambda: letters.get_facet_counts(status="pending", domain="d0"),
        "get_statistics": letters.get_statistics,
    }


async def _median_ms(work: Callable[[], Awaitable[Any]]) -> float:
    spans = []
    for _ in range(_TURNS):
        begun = time.perf_counter()
        await work()
        spans.append((time.perf_counter() - begun) * 1000)
    return statistics.median(spans)


async def _large(url: str, rows: int) -> dict[str, float]:
    """Return the milliseconds of each question of a screen."""
    async with ConnectionManager(url) as manager, AsyncSQLFailedOperationRepository(manager) as letters:
        await _fill(manager, rows)
        return {name: await _median_ms(work) for name, work in _screens(letters).items()}


async def _ready(url: str) -> float:
    """Return the milliseconds of a claim of ten among 100,000 that are due."""
    async with ConnectionManager(url) as manager, DBDeadLetterQueue(manager) as queue:
        await _fill(manager, 100_000)
        table = "holdfast.holdfast_dlq" if manager.dialect is DialectName.POSTGRES else "holdfast_dlq"
        await manager.execute(
            f"UPDATE {table} SET status = 'pending', next_retry_at = created_at, retry_delay_ms = 60000,"
            " created_at = created_at"
        )
        await manager.execute(f"UPDATE {table} SET next_retry_at = REPLACE(created_at, '2027', '2020')")

        async def claim() -> None:
            assert len(await queue.dequeue_ready()) == 10

        return await _median_ms(claim)


@contextmanager
def places(*names: str) -> Iterator[dict[str, str]]:
    """Give the URLs of fresh places for letters by name; that of memory is its name."""
    with makers(*(name for name in names if name != "memory")) as made:
        yield {name: made[name]() if name in made else name for name in dict.fromkeys(names)}


def main() -> None:
    """Measure and print."""
    options = Options(__doc__, databases=WHERE, peers=True)
    options.number("rows", 1_000_000, "letters that screens look through; 0 leaves them out", allowed=range(10_000_001))
    options.number("calls", 300, "calls of each kind in a round, and ten times as many at once")
    options.number("rounds", 3, "rounds in turn with the peer")
    given = options.parse_args()
    with places(*given.databases) as urls:
        table = []
        for name, url in urls.items():
            for setting in _settings(name, url):
                table += _compared(setting, url, given)
        columns = [
            "ms a call", "one by one", "Baldur", "times as fast", "floor", "100 at once", "Baldur", "times as fast",
            "failed", "load",
        ]  # fmt: skip
        print_table("Dead letters (replay is acquire and complete; the best of some rounds)", columns, table)
    everywhere = set(given.databases) == set(WHERE)
    large = ["sqlite", "postgres"] if everywhere else [name for name in given.databases if name in SQL]
    if large:
        _print_large(large, given.rows)


def _print_large(names: list[str], rows: int) -> None:
    with places(*names) as urls:
        ready = [[name, asyncio.run(_ready(url)), load()] for name, url in urls.items()]
    print_table("dequeue_ready of 10 among 100,000 that are due", ["", "ms", "load"], ready)
    if rows:
        with places(*names) as urls:
            found = {name: asyncio.run(_large(url, rows)) for name, url in urls.items()}
        questions = next(iter(found.values()))
        lines = [[question, *(found[name][question] for name in found)] for question in questions]
        print_table(f"Questions of screens, {rows:,} rows, ms (load {load()})", ["", *found], lines)


def _settings(name: str, url: str) -> Iterator[str]:
    """Yield the name of a place; that of Redis with each setting, which it then has."""
    if name != "redis":
        yield name
        return
    with redis.Redis.from_url(url) as client:
        for sync in _SYNCS:
            client.config_set("appendfsync", sync)
            client.flushdb()
            yield f"redis, {sync}"


def _compared(name: str, url: str, given: argparse.Namespace) -> list[list[Any]]:
    """Measure both sides in turn, some rounds; return a line for each kind of call, with the best of each side."""
    calls = given.calls
    rounds = [
        (_alone(url, calls), None if given.no_peers else _peer(name, url, calls), _floor(url, calls))
        for _ in range(given.rounds)
    ]
    together = asyncio.run(_together(url, 10 * calls))
    lines: list[list[Any]] = []
    unit = 1000 if name == "memory" else 1
    for what in ("create", "replay"):
        ours = min(alone[what] for alone, _, _ in rounds)
        peers = [said for _, said, _ in rounds if said is not None]
        floors = [floor for _, _, floor in rounds if floor is not None]
        floor = min(floors) * (1 if what == "create" else 2) * unit if floors else "-"
        line: list[Any] = [f"{name}, {what}{', us' if unit > 1 else ''}", ours * unit]
        line += [*_beside(ours, [said[what] for said in peers], unit), floor, together[what] * unit]
        line += _beside(together[what], [said[f"{what}, at once"] for said in peers], unit)
        lines.append([*line, f"{max(said['failed'] for said in peers):.0%}" if peers else "-", load()])
    return lines


def _beside(ours: float, theirs: list[float], unit: int) -> list[Any]:
    """Return the peer's best, and how many times as fast ours is."""
    return [min(theirs) * unit, min(theirs) / ours] if theirs else ["-", "-"]


def _floor(url: str, calls: int) -> float | None:
    """Return the median milliseconds of what no call can do without: a round trip to Redis; a record, its id and time.

    In a database a commit is not one thing; there is no floor there.
    """
    if url == "memory":
        world, kept = RealWorld(), {}

        def record(_: int) -> None:
            now = datetime.fromtimestamp(world.now(), UTC)
            made = FailedOperationData(
                id=world.new_id(), domain="d", failure_type="t", error_message="boom", request_data=_DATA.copy(),
                created_at=now, updated_at=now,
            )  # fmt: skip
            kept[made.id] = made

        return _spans_ms(record, range(calls))
    if not url.startswith("redis"):
        return None
    with redis.Redis.from_url(url) as client:
        return _spans_ms(lambda _: client.set("floor", b"y" * 600), range(calls))


def _peer(name: str, url: str, calls: int) -> dict[str, float] | None:
    if name == "mariadb":
        return None
    theirs = url.replace("bench.db", "peer.db")
    try:
        [answer] = peer("baldur", _PEER, "baldur_letters.py", theirs, str(calls))
    except RuntimeError as error:
        print(error)
        return None
    return answer


if __name__ == "__main__":
    main()
