"""The factory of the stores: what it makes at which level, once, whoever asks."""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import AsyncHoldfast, Holdfast
from holdfast.db import ConnectionManager
from holdfast.db.migrations.migrator import Migrator
from holdfast.errors import ConfigurationError, InvalidURL, NotInitialized, SchemaTooNew, Unavailable, WrongLoop
from holdfast.stores import (
    DBCheckpointStore,
    DBDeadLetterQueue,
    DBEventStoreBackend,
    DBExecutionStore,
    DBIdempotencyStore,
    DiskStorage,
    InMemoryExecutionStore,
    PersistentDLQ,
    RedisLockStore,
    RedisTaskQueue,
    SqliteEventStoreBackend,
    SQLLockStore,
    SQLTaskQueue,
    StoreFactory,
    SyncStoreFactory,
)

if TYPE_CHECKING:
    from collections.abc import Callable

EVERY_KIND = pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb"])
VARIABLES = ("HOLDFAST_DATABASE_URL", "DATABASE_URL", "HOLDFAST_QUEUE_URL", "REDIS_URL")


@pytest.fixture(autouse=True)
def _nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing in the environment, and a folder of one's own."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    StoreFactory.reset()
    SyncStoreFactory.reset()


async def everything(factory: StoreFactory) -> list[Any]:
    return [
        await factory.create_event_store(),
        await factory.create_checkpoint_store(),
        await factory.create_dlq(),
        await factory.create_execution_store(),
        await factory.create_idempotency_store(),
        await factory.create_task_queue(),
        await factory.create_lock_store(),
    ]


def test_url_is_the_argument_then_the_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (StoreFactory().is_level0, StoreFactory().database_url, StoreFactory().level) == (True, None, 0)
    monkeypatch.setenv("DATABASE_URL", "sqlite:///second.db")
    assert StoreFactory().database_url == "sqlite:///second.db"
    monkeypatch.setenv("HOLDFAST_DATABASE_URL", "sqlite:///first.db")
    assert (StoreFactory().database_url, StoreFactory().is_level0, StoreFactory().level) == (
        "sqlite:///first.db",
        False,
        1,
    )
    assert StoreFactory("sqlite:///given.db").database_url == "sqlite:///given.db"
    monkeypatch.setenv("HOLDFAST_DATABASE_URL", "")
    assert StoreFactory("").database_url == "sqlite:///second.db"
    monkeypatch.setenv("DATABASE_URL", "")
    assert StoreFactory().is_level0
    monkeypatch.setenv("HOLDFAST_QUEUE_URL", "redis://nowhere")
    assert (StoreFactory().level, StoreFactory().is_level0) == (2, True)


def test_level_0_is_files_and_memory(tmp_path: Path) -> None:
    async def scene() -> None:
        async with StoreFactory() as factory:
            assert os.listdir(tmp_path) == []  # noqa: PTH208 -- nothing is made that nobody has asked for
            made = await everything(factory)
            assert [type(store) for store in made] == [
                SqliteEventStoreBackend,
                DiskStorage,
                PersistentDLQ,
                InMemoryExecutionStore,
                type(None),
                type(None),
                SQLLockStore,
            ]
            await made[0].append("s", [{"type": "e"}])
        files = {path.name for path in (tmp_path / ".holdfast").glob("*")}
        assert {"events.sqlite", "dead_letters.sqlite", "locks.sqlite"} <= files
        async with StoreFactory(folder=tmp_path / ".holdfast") as other:
            assert await (await other.create_event_store()).count("s") == 1

    asyncio.run(scene())


@EVERY_KIND
def test_level_1_is_one_database(kind: str, fresh_database: Callable[[str], str]) -> None:
    async def scene() -> None:
        async with StoreFactory(fresh_database(kind)) as factory:
            made = await everything(factory)
            assert [type(store) for store in made] == [
                DBEventStoreBackend,
                DBCheckpointStore,
                DBDeadLetterQueue,
                DBExecutionStore,
                DBIdempotencyStore,
                SQLTaskQueue,
                SQLLockStore,
            ]
            await made[0].append("s", [{"type": "e"}])
            await made[3].record_start("r")
            assert await made[4].try_claim("k", "f")
            assert (await made[5].dequeue(), await made[2].get_stats()) == (
                None,
                {"pending": 0, "retrying": 0, "succeeded": 0, "permanent_failure": 0, "total": 0},
            )

    asyncio.run(scene())
    assert not Path(".holdfast").exists()


@EVERY_KIND
def test_task_of_a_queue_in_redis_becomes_a_dead_letter_of_the_database(
    fresh_database: Callable[[str], str], kind: str
) -> None:
    async def scene(url: str) -> None:
        async with StoreFactory(url, queue_url=fresh_database("redis")) as factory:
            queue, letters = await factory.create_task_queue(), await factory.create_dlq()
            assert queue is not None
            task_id = await queue.enqueue({"to": "ann"}, max_attempts=1)
            await queue.dequeue()
            assert await queue.fail(task_id, "no such address")
            [letter] = await letters.dequeue_ready()
            assert (letter["workflow_id"], letter["error"]) == (task_id, "no such address")
            assert letter["payload"]["payload"] == {"to": "ann"}

    asyncio.run(scene(fresh_database(kind)))


def test_queue_in_redis_without_a_database_makes_no_letters_and_no_files(
    fresh_database: Callable[[str], str], tmp_path: Path
) -> None:
    async def scene() -> None:
        async with StoreFactory(queue_url=fresh_database("redis")) as factory:
            queue = await factory.create_task_queue()
            assert queue is not None
            task_id = await queue.enqueue("x", max_attempts=1)
            await queue.dequeue()
            assert await queue.fail(task_id, "no")
            assert await queue.purge() == 1

    asyncio.run(scene())
    assert list(tmp_path.iterdir()) == []


def test_level_2_has_its_queue_elsewhere(fresh_database: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        monkeypatch.setenv("HOLDFAST_QUEUE_URL", fresh_database("redis"))
        async with StoreFactory(fresh_database("sqlite")) as factory:
            queue = await factory.create_task_queue()
            assert isinstance(queue, RedisTaskQueue)
            assert queue is await factory.create_task_queue()
            assert isinstance(await factory.create_lock_store("redis"), RedisLockStore)
            assert isinstance(await factory.create_lock_store(), SQLLockStore)
            await queue.enqueue({"n": 1})
            assert (await queue.dequeue()) is not None
        async with StoreFactory(queue_url=fresh_database("sqlite")) as elsewhere:
            queue = await elsewhere.create_task_queue()
            assert isinstance(queue, SQLTaskQueue)
            assert isinstance(await elsewhere.create_execution_store(), InMemoryExecutionStore)
            assert await queue.enqueue({"n": 1})

    asyncio.run(scene())


def test_lock_store_that_cannot_be_is_refused() -> None:
    async def scene() -> None:
        factory = StoreFactory()
        with pytest.raises(ConfigurationError, match="'sql' or 'redis'"):
            await factory.create_lock_store("etcd")
        with pytest.raises(ConfigurationError, match="REDIS_URL"):
            await factory.create_lock_store("redis")

    asyncio.run(scene())


@EVERY_KIND
def test_many_who_ask_at_once_get_the_same_stores(kind: str, fresh_database: Callable[[str], str]) -> None:
    async def scene() -> None:
        factory = StoreFactory(fresh_database(kind))
        made = await asyncio.gather(*(everything(factory) for _ in range(30)))
        assert {tuple(map(id, stores)) for stores in made} == {tuple(map(id, made[0]))}
        assert len({id(store._manager) for store in (made[0][0], made[0][1], made[0][3], made[0][4])}) == 1
        await factory.close()

    asyncio.run(scene())


@pytest.mark.parametrize("kind", [None, "sqlite", "postgres"])
def test_closed_factory_opens_again_on_another_loop(kind: str | None, fresh_database: Callable[[str], str]) -> None:
    factory = StoreFactory(None if kind is None else fresh_database(kind))

    async def scene(expected: int) -> Any:
        store = (await asyncio.gather(*(factory.create_event_store() for _ in range(5))))[0]
        [event] = await store.append("s", [{"type": "e"}])
        assert event["sequence"] == expected
        await factory.close()
        await factory.close()
        with pytest.raises(NotInitialized):
            await store.get("s")
        return store

    assert asyncio.run(scene(1)) is not asyncio.run(scene(2))


@pytest.mark.parametrize("kind", [None, "sqlite", "postgres", "mariadb"])
def test_factory_that_is_open_is_refused_on_another_loop(
    kind: str | None, fresh_database: Callable[[str], str]
) -> None:
    factory = StoreFactory(None if kind is None else fresh_database(kind))

    async def elsewhere() -> None:
        for use in (factory.initialize, factory.create_event_store, factory.create_task_queue, factory.close):
            with pytest.raises(WrongLoop, match=r"StoreFactory.*close\(\) it there"):
                await use()

    async def scene() -> None:
        store = await factory.create_event_store()
        await asyncio.to_thread(asyncio.run, elsewhere())
        assert await factory.create_event_store() is store
        assert await store.count("s") == 0
        await factory.close()

    asyncio.run(scene())
    asyncio.run(scene())


@EVERY_KIND
def test_newer_schema_is_refused_before_anything_is_touched(kind: str, fresh_database: Callable[[str], str]) -> None:
    async def scene() -> None:
        url = fresh_database(kind)
        async with ConnectionManager(url) as manager:
            await Migrator(manager).migrate()
            prefix = "holdfast." if kind == "postgres" else ""
            await manager.execute(f"UPDATE {prefix}holdfast_migrations SET version = 9999")
            await manager.execute(f"DROP TABLE {prefix}holdfast_events")
            factory = StoreFactory(url)
            for _ in range(2):  # and it is not opened half
                with pytest.raises(SchemaTooNew, match="9999"):
                    await factory.create_event_store()
            with pytest.raises(SchemaTooNew):
                await factory.initialize()
            await manager.execute(f"CREATE TABLE {prefix}holdfast_events (nobody INTEGER)")  # it was not made again

    asyncio.run(scene())


def test_url_that_leads_nowhere_is_told_and_may_be_tried_again() -> None:
    async def scene() -> None:
        with pytest.raises(InvalidURL):
            await StoreFactory("oracle://somewhere").create_event_store()
        factory = StoreFactory("postgresql://nobody:secret@127.0.0.1:1/none")
        for _ in range(2):
            with pytest.raises(Unavailable) as told:
                await factory.create_event_store()
            assert "secret" not in str(told.value)

    asyncio.run(scene())


@pytest.mark.parametrize("kind", [StoreFactory, SyncStoreFactory])
def test_default_is_one_for_all_threads_until_it_is_reset(kind: Any) -> None:
    together = threading.Barrier(8)

    def ask(_: int) -> Any:
        together.wait()
        return kind.get_default()

    with ThreadPoolExecutor(8) as threads:
        first = set(threads.map(ask, range(8)))
    assert len(first) == 1
    assert kind.get_default() in first
    kind.reset()
    assert kind.get_default() not in first


@pytest.mark.parametrize("kind", [None, "sqlite", "postgres", "mariadb"])
def test_sync_factory_makes_the_same_for_threads(kind: str | None, fresh_database: Callable[[str], str]) -> None:
    with SyncStoreFactory(None if kind is None else fresh_database(kind)) as factory:
        assert (factory.is_level0, factory.level) == ((True, 0) if kind is None else (False, 1))

        def work(number: int) -> None:
            factory.create_event_store().append("s", [{"type": "e", "data": number}])
            factory.create_checkpoint_store().save(f"c{number}", b"x")
            factory.create_execution_store().record_start(f"r{number}")
            factory.create_dlq().enqueue(workflow_id="w", error="e", payload={"n": number})

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(work, range(16)))
        assert factory.create_event_store().last_sequence("s") == 16
        assert len(factory.create_checkpoint_store().list_keys("c")) == 16
        assert len(factory.create_execution_store().list_executions()) == 16
        assert factory.create_dlq().get_stats()["pending"] == 16
        assert factory.create_lock_store() is not None
        idempotency, tasks = factory.create_idempotency_store(), factory.create_task_queue()
        assert (idempotency is None, tasks is None) == (kind is None, kind is None)
    factory.close()
    with factory:
        assert factory.create_event_store().count("s") == 16


def test_stores_give_back_the_same_at_every_level(fresh_database: Callable[[str], str]) -> None:
    async def answers(factory: StoreFactory) -> Any:
        events, executions = await factory.create_event_store(), await factory.create_execution_store()
        dlq, checkpoint = await factory.create_dlq(), await factory.create_checkpoint_store()
        await executions.record_start("r", parameters={"n": [1]})
        await checkpoint.save("k", b"x")
        found = {
            "append": await events.append("s", [{"type": "a", "data": (1, 2)}]),
            "get": await events.get("s"),
            "execution": await executions.get_execution("r"),
            "letter": await dlq.enqueue(workflow_id="w", error="e", payload={"n": 1}),
            "ready": await dlq.dequeue_ready(),
            "stats": await dlq.get_stats(),
            "load": await checkpoint.load("k"),
            "keys": await checkpoint.list_keys("k"),
        }
        await factory.close()
        return _shape(found)

    async def scene() -> None:
        levels = [StoreFactory(), *(StoreFactory(fresh_database(kind)) for kind in ("sqlite", "postgres", "mariadb"))]
        level_0, *others = [await answers(factory) for factory in levels]
        assert others == [level_0] * 3

    asyncio.run(scene())


def _shape(value: Any) -> Any:
    """Return the types of a value, down to its parts."""
    if isinstance(value, dict):
        return {key: _shape(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_shape(each) for each in value]
    return type(value)


@EVERY_KIND
def test_stores_hang_from_both_applications(kind: str, fresh_database: Callable[[str], str]) -> None:
    url = fresh_database(kind)
    app = Holdfast(url)
    with pytest.raises(NotInitialized, match="launch"):
        app.events.count("s")
    for number in (1, 2):  # it may be launched again
        with app:
            [event] = app.events.append("s", [{"type": "e"}])
            assert event["sequence"] == number
            app.checkpoints.save("k", b"x")
            app.executions.record_start(f"r{number}")
            assert app.idempotency.try_claim(f"k{number}", "f")
            assert app.tasks.enqueue({"n": number})
            assert app.dead_letters.enqueue(workflow_id="w", error="e", payload={})
            assert app.locks.get("l") is None
            assert app.breakers.get_open_states() == []
            assert app.flow_checkpoints.list_by_flow("f") == []

    async def scene() -> None:
        async with AsyncHoldfast(url) as app:
            assert await app.events.count("s") == 2
            assert app.events is app.events
            assert await app.checkpoints.load("k") == b"x"
            assert len(await app.executions.list_executions()) == 2
            assert not await app.idempotency.try_claim("k1", "f")
            assert await app.tasks.dequeue() is not None
            assert (await app.dead_letters.get_stats())["total"] == 2
            assert await app.locks.get("l") is None
            assert await app.breakers.get_open_states() == []
            assert await app.flow_checkpoints.alist_by_flow("f") == []

    asyncio.run(scene())
