"""Claims that need not wait for SQLite's disk do not, everything else does, and processes see no difference."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.db import ConnectionManager
from holdfast.db.settings import Settings
from holdfast.db.sqlite.sqlite import SqliteConnection, opener
from holdfast.db.url import DatabaseURL
from holdfast.stores import DBIdempotencyStore, IdempotentExecutor

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

FULL, NORMAL = 2, 1


@pytest.fixture
def levels(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """How each statement that writes keys is committed: its first word, and the level at that moment."""
    seen: list[tuple[str, int]] = []
    run = SqliteConnection._run

    def watched(self: SqliteConnection, sql: str, args: Any) -> Any:
        cursor = run(self, sql, args)
        if "holdfast_idempotency" in sql and sql.startswith(("INSERT", "UPDATE", "DELETE")):
            seen.append((sql.split(maxsplit=1)[0], self._raw.execute("PRAGMA synchronous").fetchone()[0]))
        return cursor

    monkeypatch.setattr(SqliteConnection, "_run", watched)
    return seen


def play(path: Path, scene: Callable[[DBIdempotencyStore, ConnectionManager], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with ConnectionManager(f"sqlite:///{path}/keys.db") as manager, DBIdempotencyStore(manager) as store:
            await scene(store, manager)

    asyncio.run(main())


def test_fleeting_claim_does_not_wait_for_the_disk_and_its_result_does(
    tmp_path: Path, levels: list[tuple[str, int]]
) -> None:
    async def scene(store: DBIdempotencyStore, manager: ConnectionManager) -> None:
        assert (await store.claim("k", "f", fleeting=True)).won
        await store.store_result("k", 1)
        await store.claim("durable", "f")
        await store.claim("other", "f", fleeting=True)
        await manager.execute("DELETE FROM holdfast_idempotency WHERE idempotency_key = ?", "other")

    play(tmp_path, scene)
    assert levels == [("INSERT", NORMAL), ("UPDATE", FULL), ("INSERT", FULL), ("INSERT", NORMAL), ("DELETE", FULL)]


def test_fleeting_claim_holds_against_another_connection(tmp_path: Path) -> None:
    async def scene(store: DBIdempotencyStore, _: ConnectionManager) -> None:
        assert (await store.claim("k", "f", fleeting=True)).won
        async with ConnectionManager(f"sqlite:///{tmp_path}/keys.db") as other, DBIdempotencyStore(other) as second:
            assert not (await second.claim("k", "f", fleeting=True)).won

    play(tmp_path, scene)


class _Runtime:
    async def execute(self, workflow: Any, parameters: Any = None) -> tuple[Any, str]:
        return parameters, "run"


def test_executor_waits_for_the_disk_once_and_for_the_claim_of_a_run_of_ours_too(
    tmp_path: Path, levels: list[tuple[str, int]]
) -> None:
    class Workflow:
        name = "wf"

        def options(self, **_: Any) -> Workflow:
            return self

        def start(self) -> None: ...

    async def scene(store: DBIdempotencyStore, _: ConnectionManager) -> None:
        executor = IdempotentExecutor(store)
        await executor.execute(_Runtime(), "wf", {}, "theirs")
        await executor.execute(_Runtime(), Workflow(), {}, "ours")

    play(tmp_path, scene)
    assert levels == [("INSERT", NORMAL), ("UPDATE", FULL), ("INSERT", FULL), ("UPDATE", FULL)]


@pytest.mark.parametrize(("chosen", "fleeting"), [("FULL", 1), ("EXTRA", 1), ("NORMAL", 1), ("OFF", 0)])
def test_level_that_was_chosen_is_never_raised_and_comes_back(tmp_path: Path, chosen: str, fleeting: int) -> None:
    url = DatabaseURL.parse(f"sqlite:///{tmp_path}/levels.db")
    connection = opener(Settings(url=url, synchronous=chosen))()

    def level() -> Any:
        return connection.fetch("PRAGMA synchronous", ())[0]["synchronous"]

    before = level()
    connection.begin()
    connection.waits_for_disk = False
    connection.execute("CREATE TABLE t (x)", ())
    assert level() == before  # the transaction that is under way is as it began
    connection.commit()
    assert level() == fleeting
    connection.waits_for_disk = True
    assert level() == before
    connection.close()
