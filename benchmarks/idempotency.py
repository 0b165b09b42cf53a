"""Idempotency keys: the store beside raw statements, the middleware beside the bare application and beside peers.

Promised: every operation of the store at most 1.5 times the raw statement; the middleware adds less than 1 ms (p50) to
a request with a new key on SQLite, and less than 0.3 ms to a replay; the executor costs two commits. Beside them stands
the floor: two commits of SQLite that wait for the disk, on the thread that asks, and nothing else. The peers keep
theirs in Redis and in memory, and are measured with Redis.
"""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
import statistics
import time
from contextlib import closing
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from yard.databases import SQL, makers
from yard.machine import load
from yard.options import Options
from yard.peers import peer
from yard.table import alternating, print_table

from holdfast.db import ConnectionManager
from holdfast.stores import DBIdempotencyStore, IdempotentExecutor, InMemoryIdempotencyStore
from holdfast.web import IdempotencyMiddleware

if TYPE_CHECKING:
    import argparse
    from collections.abc import Awaitable, Callable

_WHERE = (*SQL, "redis", "memory")
_BODY = b'{"sku": "book", "cents": 1900}'
_PEERS = ["idemkit==1.0.2", "asgi-idempotency-header==0.2.0", "redis>=5", "fastapi", "starlette"]
_numbers = itertools.count()

# What the store does, as one would write it by hand: the yardstick.
_RAW_CLAIM = (
    "INSERT INTO {} (idempotency_key, fingerprint, response_data, status_code, headers, created_at, expires_at, "
    "owner_token) VALUES (?, 'f', 'null', 0, '{{}}', '2026', '9999', ?)"
)
_RAW_STORE = "UPDATE {} SET response_data = '1', status_code = 200 WHERE idempotency_key = ? AND owner_token = ?"


async def _median(call: Callable[[], Awaitable[object]], count: int = 100) -> float:
    """Milliseconds of one call, the median of many made one after the other."""
    spans = []
    for _ in range(count):
        begun = time.perf_counter()
        await call()
        spans.append(time.perf_counter() - begun)
    return statistics.median(spans) * 1000


async def _best(rounds: int, *calls: Callable[[], Awaitable[object]]) -> list[float]:
    """Return the median of each call's best round, which other work disturbs least. The rounds alternate."""
    taken: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for spans, call in zip(taken, calls, strict=True):
            spans.append(await _median(call))
    return [min(each) for each in taken]


async def _store(name: str, url: str, rounds: int) -> list[tuple[object, ...]]:
    async with ConnectionManager(url) as manager, DBIdempotencyStore(manager) as store:
        table = "holdfast.holdfast_idempotency" if name == "postgres" else "holdfast_idempotency"

        async def raw() -> None:
            key = f"raw-{next(_numbers)}"
            await manager.execute(_RAW_CLAIM.format(table), key, key)
            await manager.execute(_RAW_STORE.format(table), key, key)

        async def ours() -> None:
            key = f"key-{next(_numbers)}"
            await store.try_claim(key, "f")
            await store.store_result(key, 1)

        await ours()
        by_hand, by_store = await alternating(rounds, lambda: _median(raw), lambda: _median(ours))
        begun = time.perf_counter()
        await asyncio.gather(*(ours() for _ in range(2000)))
        together = 2000 / (time.perf_counter() - begun)
        return [(name, by_hand, by_store, f"{by_store / by_hand:.2f}x", together)]


class _Call:
    """One request after the other at an ASGI application, without a server in between."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, key: str) -> None:
        messages = [{"type": "http.request", "body": _BODY, "more_body": False}]
        sent: list[Any] = []

        async def receive() -> Any:
            return messages.pop()

        async def send(message: Any) -> None:
            sent.append(message)

        headers = [(b"idempotency-key", key.encode()), (b"content-type", b"application/json")]
        scope = {"type": "http", "method": "POST", "path": "/orders", "query_string": b"", "headers": headers}
        await self._app(scope, receive, send)
        assert sent[0]["status"] == 201

    async def new(self) -> None:
        await self(f"new-{next(_numbers)}")

    async def again(self) -> None:
        await self("the same")


async def _application(scope: Any, receive: Any, send: Any) -> None:  # noqa: ARG001 -- an ASGI application's signature
    await receive()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"15")]
    await send({"type": "http.response.start", "status": 201, "headers": headers})
    await send({"type": "http.response.body", "body": b'{"order": "17"}'})


async def _middleware(name: str, store: Any, rounds: int) -> tuple[object, ...]:
    bare, wrapped = _Call(_application), _Call(IdempotencyMiddleware(_application, store=store))
    await wrapped.again()
    base, new, again = await _best(rounds, bare.new, wrapped.new, wrapped.again)
    return (name, new - base, again - base)


async def _floor(rounds: int) -> tuple[object, ...]:
    with TemporaryDirectory() as folder, closing(sqlite3.connect(f"{folder}/raw.db", isolation_level=None)) as raw:
        for line in ("journal_mode = WAL", "synchronous = FULL", "wal_autocheckpoint = 0"):
            raw.execute(f"PRAGMA {line}")
        columns = (
            "idempotency_key PRIMARY KEY, fingerprint, response_data, status_code, headers, created_at, expires_at"
        )
        raw.execute(f"CREATE TABLE keys ({columns}, owner_token)")

        async def commits() -> None:
            key = f"raw-{next(_numbers)}"
            raw.execute(_RAW_CLAIM.format("keys"), (key, key))
            raw.execute(_RAW_STORE.format("keys"), (key, key))

        [taken] = await _best(rounds, commits)
        return ("SQLite itself, two commits", taken, "-")


class _Runtime:
    async def execute(self, workflow: Any, parameters: Any = None) -> tuple[Any, str]:  # noqa: ARG002 -- a runtime's signature
        return parameters, "run"


async def _executor(name: str, url: str, rounds: int) -> tuple[object, ...]:
    async with ConnectionManager(url) as manager, DBIdempotencyStore(manager) as store:
        executor = IdempotentExecutor(store)

        async def new() -> None:
            await executor.execute(_Runtime(), "wf", {"a": 1}, f"run-{next(_numbers)}")

        async def again() -> None:
            await executor.execute(_Runtime(), "wf", {"a": 1}, "run")

        await again()
        return (name, *await _best(rounds, new, again))


def _requests(name: str, url: str, given: argparse.Namespace) -> list[tuple[object, ...]]:
    """Return what requests cost with keys in one place, beside what there is to compare with."""
    store = InMemoryIdempotencyStore() if name == "memory" else url
    rows = [asyncio.run(_floor(given.rounds))] if name == "sqlite" else []
    rows.append(asyncio.run(_middleware(f"holdfast, {name}", store, given.rounds)))
    if name == "redis" and not given.no_peers:
        found = peer("idempotency", _PEERS, "idempotency_http.py", url)
        rows += [(each["name"], each["new"], each["again"]) for each in found]
    return rows


def main() -> None:
    options = Options(__doc__, databases=_WHERE, peers=True)
    options.number("rounds", 7, "rounds of 100 calls of each kind")
    given = options.parse_args()
    stores: list[tuple[object, ...]] = []
    requests: list[tuple[object, ...]] = []
    executions: list[tuple[object, ...]] = []
    before = load()
    with makers(*(name for name in given.databases if name != "memory")) as made:
        urls = {name: make() for name, make in made.items()}
        for name in dict.fromkeys(given.databases):
            if name in SQL:
                stores += asyncio.run(_store(name, urls[name], given.rounds))
                executions.append(asyncio.run(_executor(name, urls[name], given.rounds)))
            requests += _requests(name, urls.get(name, name), given)
    if stores:
        columns = ["database", "raw, two statements", "store", "ratio", "a second, 2000 at once"]
        print_table("Claim and result, ms", columns, stores)
    print_table("What the middleware adds to a request, ms p50", ["middleware, store", "new key", "replay"], requests)
    if executions:
        print_table("What the executor costs, ms p50", ["database", "new key", "stored"], executions)
    print(f"Load average before and after: {before}, {load()}")


if __name__ == "__main__":
    main()
