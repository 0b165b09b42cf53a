"""The LangGraph saver: LangGraph's own suite over every backend, and what that suite leaves out."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

import pytest
from langgraph.checkpoint.base import ChannelVersions, CheckpointMetadata, empty_checkpoint
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import Capability
from langgraph.checkpoint.conformance.report import ProgressCallbacks
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from redis import Redis

from holdfast.db import ConnectionManager
from holdfast.db.migrations.migrator import SCHEMA
from holdfast.db.url import DialectName
from holdfast.errors import (
    ConfigurationError,
    DamagedCheckpoint,
    InvalidKey,
    InvalidURL,
    MisuseError,
    Retryable,
    StorageError,
    TooLong,
)
from holdfast.integrations.langgraph import HoldfastSaver
from holdfast.stores.threads import LargeValue, Place, Saved, SQLThreads, thread_queries
from holdfast.testing.servers import databases_of
from holdfast.testing.servers.redis_cluster import RedisCluster

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver, Checkpoint

BACKENDS = ("sqlite", "memory", "postgres", "mariadb", "redis")
LONG = "x" * 3000  # kept beside checkpoints once it did not change


@pytest.fixture(scope="module", params=BACKENDS)
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A database of each kind, for all tests of this module: each has threads of its own."""
    if request.param == "memory":
        yield "sqlite://"
    elif request.param == "sqlite":
        yield f"sqlite:///{tmp_path_factory.mktemp('saver')}/agents.db"
    else:
        server = request.getfixturevalue(f"{request.param}_url")
        database = databases_of(server).create(server)
        yield database
        databases_of(server).drop(database)


@pytest.fixture
def saver(url: str) -> Iterator[HoldfastSaver]:
    """A saver on that database."""
    with HoldfastSaver.from_url(url) as opened:
        yield opened


@pytest.fixture
def thread() -> str:
    """The name of a thread that no other test has."""
    return uuid4().hex


def at(thread_id: str, checkpoint_id: str | None = None, ns: str = "") -> RunnableConfig:
    named = {"thread_id": thread_id, "checkpoint_ns": ns}
    return {"configurable": named if checkpoint_id is None else {**named, "checkpoint_id": checkpoint_id}}


def made(version: int, **values: Any) -> tuple[Checkpoint, ChannelVersions]:
    """Return a checkpoint and the versions of its values, all of which are new."""
    versions: ChannelVersions = dict.fromkeys(values, f"{version:08}")
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = values
    checkpoint["channel_versions"] = versions
    return checkpoint, versions


def about(step: int, **more: Any) -> CheckpointMetadata:
    return cast("CheckpointMetadata", {"source": "loop", "step": step, "parents": {}, **more})


def put(saver: HoldfastSaver, where: RunnableConfig, step: int, **metadata: Any) -> RunnableConfig:
    checkpoint, versions = made(step, text=f"{LONG}{step}", number=step)
    return saver.put(where, checkpoint, about(step, **metadata), versions)


def steps(saver: HoldfastSaver, config: RunnableConfig | None, **wanted: Any) -> list[int]:
    return [found.metadata["step"] for found in saver.list(config, **wanted)]


def newest(saver: HoldfastSaver, thread_id: str) -> dict[str, Any]:
    found = saver.get_tuple(at(thread_id))
    assert found is not None
    return found.checkpoint["channel_values"]


Verdicts = dict[str, tuple[bool, bool | None, list[str]]]
ALL_PASSED: Verdicts = {each.value: (True, True, []) for each in Capability}


def judged(url: str) -> Verdicts:
    """Return for each capability of LangGraph's suite whether it was seen and passed, and what failed."""
    saver = HoldfastSaver.from_url(url)

    @checkpointer_test(name="HoldfastSaver")
    async def factory() -> AsyncGenerator[BaseCheckpointSaver[str], None]:
        yield saver

    async def judge() -> Verdicts:
        async with saver:
            report = await validate(factory, progress=ProgressCallbacks.quiet())
        return {name: (each.detected, each.passed, each.failures) for name, each in report.results.items()}

    return asyncio.run(judge())


def test_saver_passes_every_capability_of_langgraphs_suite(url: str) -> None:
    assert judged(url) == ALL_PASSED


def test_saver_passes_every_capability_on_a_redis_cluster(redis_url: str) -> None:
    assert redis_url
    with RedisCluster() as cluster:
        assert judged(cluster.url) == ALL_PASSED


def test_deleted_threads_leave_nothing_in_redis(fresh_database: Callable[[str], str]) -> None:
    url = fresh_database("redis")
    with HoldfastSaver.from_url(url) as saver:
        for step in range(3):
            saver.put_writes(put(saver, at("t"), step, run_id="r"), [("a", LONG)], "task")
        saver.put_writes(at("t", "unknown"), [("a", 1)], "task")  # before its checkpoint
        saver.copy_thread("t", "copy")
        saver.delete_for_runs(["r"])
        assert steps(saver, None) == []
        saver.delete_thread("t")
        saver.delete_thread("copy")
    with Redis.from_url(url) as client:
        assert client.keys() == [b"{holdfast:threads}:sequence"]


def test_name_that_is_too_long_for_mariadb_is_refused(fresh_database: Callable[[str], str]) -> None:
    with HoldfastSaver.from_url(fresh_database("mariadb")) as saver, pytest.raises(TooLong):
        put(saver, at("t" * 256), 1)


def test_sync_calls_store_and_find_checkpoints(saver: HoldfastSaver, thread: str) -> None:
    first = put(saver, at(thread), 1)
    second = put(saver, first, 2)
    other = put(saver, at(thread, ns="inner"), 3)

    found = saver.get_tuple(at(thread))
    assert found is not None
    assert found.config == second
    assert found.parent_config == first
    assert found.checkpoint["channel_values"] == {"text": f"{LONG}2", "number": 2}
    assert saver.get_tuple(at(thread, ns="inner")) == saver.get_tuple(other)
    assert saver.get_tuple(at("unknown")) is None
    named = saver.get_tuple(first)
    assert named is not None
    assert named.checkpoint["channel_values"]["number"] == 1


def test_sync_list_filters_and_pages_newest_first(saver: HoldfastSaver, thread: str) -> None:
    where = at(thread)
    for step in range(130):  # more than a page
        where = put(saver, where, step, parity=step % 2)
    put(saver, at(thread, ns="inner"), 1000, of=thread)

    assert steps(saver, at(thread)) == list(range(129, -1, -1))
    assert steps(saver, {"configurable": {"thread_id": thread}}, limit=2) == [1000, 129]
    assert steps(saver, at(thread), limit=3) == [129, 128, 127]
    assert steps(saver, at(thread), filter={"parity": 1}, limit=2) == [129, 127]
    assert steps(saver, at(thread), filter={"parity": 1}) == list(range(129, -1, -2))
    assert steps(saver, at(thread), before=where, limit=1) == [128]
    assert steps(saver, where) == [129]
    assert steps(saver, at(thread), limit=0) == []
    assert steps(saver, None, filter={"step": 1000, "of": thread}) == [1000]


def test_value_that_did_not_change_is_found_in_later_checkpoints(saver: HoldfastSaver, thread: str) -> None:
    first = put(saver, at(thread), 1)
    checkpoint, versions = made(1, text=f"{LONG}1", number=1)
    saver.put(first, checkpoint, about(2), {"number": versions["number"]})
    assert newest(saver, thread) == {"text": f"{LONG}1", "number": 1}


def test_sync_writes_stay_and_interrupts_are_replaced(saver: HoldfastSaver, thread: str) -> None:
    where = put(saver, at(thread), 1)
    saver.put_writes(where, [("a", 1), ("b", LONG)], "task-2", "~2")
    saver.put_writes(where, [("a", 99), ("b", 99)], "task-2", "~2")
    saver.put_writes(where, [("__interrupt__", "old")], "task-1", "~1")
    saver.put_writes(where, [("__interrupt__", "new")], "task-1", "~1")
    found = saver.get_tuple(where)
    assert found is not None
    assert found.pending_writes == [
        ("task-1", "__interrupt__", "new"),
        ("task-2", "a", 1),
        ("task-2", "b", LONG),
    ]


def test_sync_delete_copy_and_prune(saver: HoldfastSaver, thread: str) -> None:
    early, late, copy = (f"{thread}-{name}" for name in ("early", "late", "copy"))
    where = at(thread)
    for step, run in enumerate((early, early, late, late)):
        where = put(saver, where, step, run_id=run)
        saver.put_writes(where, [("a", step)], f"task-{step}")
    put(saver, at(thread, ns="inner"), 10)

    saver.copy_thread(thread, copy)
    assert [each._replace(config=at(""), parent_config=None) for each in saver.list(at(copy))] == [
        each._replace(config=at(""), parent_config=None) for each in saver.list(at(thread))
    ]
    saver.delete_for_runs([late, f"{thread}-unknown"])
    assert (steps(saver, at(thread)), steps(saver, at(copy))) == ([1, 0], [1, 0])
    saver.prune([copy])
    assert (steps(saver, at(thread)), steps(saver, at(copy))) == ([1, 0], [1])
    assert newest(saver, copy) == {"text": f"{LONG}1", "number": 1}
    assert steps(saver, at(copy, ns="inner")) == [10]
    saver.prune([copy], strategy="delete")
    assert steps(saver, {"configurable": {"thread_id": copy}}) == []
    saver.delete_thread(thread)
    assert steps(saver, {"configurable": {"thread_id": thread}}) == []
    with pytest.raises(ConfigurationError, match="keep_latest"):
        saver.prune([thread], strategy="some")


def test_number_is_the_thread_that_is_written_so_and_no_other(saver: HoldfastSaver) -> None:
    mine = uuid4().int >> 64
    others = [f"ada-{mine}", f"{mine} dwarfs", f"0{mine}", f"{mine}.0"]
    for each in (*others, mine, 0):
        put(saver, at(cast("str", each)), 1, run_id=str(each))

    def left() -> list[str]:
        return [each for each in (*others, str(mine), "0") if steps(saver, at(each))]

    numbers = cast("list[str]", [mine, 0])
    saver.copy_thread(numbers[0], f"{mine}-copy")
    assert steps(saver, at(f"{mine}-copy")) == [1]
    saver.prune(numbers)
    assert left() == [*others, str(mine), "0"]
    saver.delete_for_runs(numbers[1:])
    assert left() == [*others, str(mine)]
    saver.delete_thread(numbers[0])
    assert left() == others
    put(saver, at(numbers[0]), 2)
    saver.prune(numbers, strategy="delete")
    assert left() == others
    [found] = saver.list(at(others[0]))
    wrong = {"configurable": {"thread_id": others[0], "checkpoint_ns": "", "checkpoint_id": 0}}
    assert saver.get_tuple(cast("RunnableConfig", wrong)) is None
    assert saver.get_tuple(found.config) is not None


def test_tasks_delete_threads_by_numbers_too(saver: HoldfastSaver, thread: str) -> None:
    numbers = cast("list[str]", [uuid4().int >> 64, uuid4().int >> 64])

    async def main() -> list[list[int]]:
        for each in numbers:
            put(saver, at(each), 1, run_id=f"{each}")
        put(saver, at(thread), 1)
        await saver.acopy_thread(numbers[0], numbers[1])
        await saver.aprune(numbers)
        await saver.adelete_thread(numbers[0])
        await saver.adelete_for_runs(numbers)
        left = [steps(saver, at(each)) for each in (*numbers, thread)]
        await saver.aclose()
        return left

    assert asyncio.run(main()) == [[], [], [1]]


def test_name_that_no_database_keeps_is_refused_alike(saver: HoldfastSaver, thread: str) -> None:
    where = put(saver, at(thread), 1)
    for bad in ("a\0b", "\ud800"):
        odd, versions = made(2, number=2)
        odd["id"] = bad
        for call in (
            lambda: put(saver, at(bad), 1),  # noqa: B023 -- called at once
            lambda: put(saver, at(thread, ns=bad), 1),  # noqa: B023
            lambda: saver.put(at(thread), odd, about(2), versions),  # noqa: B023
            lambda: saver.put_writes(where, [("a", 1)], bad),  # noqa: B023
            lambda: saver.put_writes(where, [(bad, 1)], "task"),  # noqa: B023
            lambda: saver.get_tuple(at(bad)),  # noqa: B023
            lambda: list(saver.list(at(bad))),  # noqa: B023
            lambda: saver.delete_thread(bad),  # noqa: B023
            lambda: saver.copy_thread(thread, bad),  # noqa: B023
            lambda: saver.prune([bad]),  # noqa: B023
            lambda: saver.delete_for_runs([bad]),  # noqa: B023
        ):
            with pytest.raises(InvalidKey, match=r"thread_id|checkpoint_ns|run_id|id of the|task_id|channel"):
                call()
    for take in (saver.prune, saver.delete_for_runs):
        with pytest.raises(MisuseError, match=r"pass \['"):
            take(thread)
    with pytest.raises(TypeError, match="limit"):
        list(saver.list(at(thread), limit=cast("int", 1.5)))
    assert steps(saver, at(thread)) == [1]


def test_names_with_any_characters_are_kept_apart(saver: HoldfastSaver, thread: str) -> None:
    threads = [thread + name for name in (":b", "%3Ab", "", "ä {}\n", "a", "A")]
    for step, (thread_id, ns) in enumerate((each, ns) for each in threads for ns in ("", "b:c|d")):
        checkpoint, versions = made(1, **{"a:b c": f"{LONG}{step}"})
        saver.put(at(thread_id, ns=ns), checkpoint, about(step), versions)
    for number, thread_id in enumerate(threads):
        for ns in ("", "b:c|d"):
            found = saver.get_tuple(at(thread_id, ns=ns))
            assert found is not None
            assert found.config["configurable"]["thread_id"] == thread_id
            assert found.checkpoint["channel_values"] == {"a:b c": f"{LONG}{2 * number + bool(ns)}"}
    saver.delete_thread(thread)
    left = [len(steps(saver, {"configurable": {"thread_id": thread_id}})) for thread_id in threads]
    assert left == [2, 2, 0, 2, 2, 2]


def test_values_of_channels_whose_names_are_nearly_the_same_are_kept_apart(saver: HoldfastSaver, thread: str) -> None:
    names = ("doc", "Doc", "d\u00f6c", "doc ", "do\u0308c")
    values = {name: f"{name}{LONG}" for name in names}
    checkpoint, _ = made(1, **values)
    saver.put(at(thread), checkpoint, about(1), {})
    assert newest(saver, thread) == values
    [listed] = saver.list(at(thread))
    assert listed.checkpoint["channel_values"] == values
    saver.copy_thread(thread, f"{thread}-2")
    saver.prune([thread])
    assert newest(saver, thread) == newest(saver, f"{thread}-2") == values


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb", "redis"])
def test_checkpoint_whose_value_is_gone_is_told_and_never_returned_without_it(
    kind: str, fresh_database: Callable[[str], str]
) -> None:
    url = fresh_database(kind)
    with HoldfastSaver(url) as saver:
        checkpoint, _ = made(1, large=LONG, small=1)
        saver.put(at("t"), checkpoint, about(1), {})
        if kind == "redis":
            with Redis.from_url(url) as client:
                assert client.delete("{holdfast:threads}:values:t") == 1
        else:
            schema = f"{SCHEMA}." if kind == "postgres" else ""
            asyncio.run(executed(url, f"DELETE FROM {schema}holdfast_thread_values"))

        async def read_async() -> None:
            try:
                with pytest.raises(DamagedCheckpoint, match="'large'"):
                    await saver.aget_tuple(at("t"))
            finally:
                await saver._sides.aclose_here()

        with pytest.raises(DamagedCheckpoint, match="'large'"):
            saver.get_tuple(at("t"))
        with pytest.raises(DamagedCheckpoint, match="'large'"):
            list(saver.list(at("t")))
        asyncio.run(read_async())
        saver.delete_thread("t")
        assert saver.get_tuple(at("t")) is None


async def executed(url: str, sql: str) -> None:
    async with ConnectionManager(url) as manager:
        await manager.execute(sql)


def test_copy_beside_a_prune_brings_the_values_of_what_it_copies(fresh_database: Callable[[str], str]) -> None:
    url = fresh_database("postgres")

    async def scene() -> None:
        threads = SQLThreads(ConnectionManager(url))
        await threads.initialize()
        async with ConnectionManager(url) as manager:
            await copied_beside_a_prune(threads, manager)
        await threads.close()

    asyncio.run(scene())


async def copied_beside_a_prune(threads: SQLThreads, manager: ConnectionManager) -> None:
    value = LargeValue("text", "1", "f", b"large")
    old = Saved(Place("target", "", "1"), None, None, "f", b"", "{}", {"text": "1"})
    await threads.put(old, [value])
    await threads.copy_thread("target", "source")
    await threads.put(old._replace(place=Place("source", "", "3")), [])
    await threads.put(old._replace(place=Place("target", "", "2"), large={}), [])  # so the first may go, and the value
    async with manager.transaction() as transaction:
        copy = thread_queries(DialectName.POSTGRES, SCHEMA)["thread_copy"]
        await transaction.execute(copy, source="source", target="target")
        prune = asyncio.ensure_future(threads.prune(["target"]))
        waits = "SELECT pid FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))"
        async with asyncio.timeout(60):
            while not await transaction.fetch(waits):
                done, _ = await asyncio.wait([prune], timeout=0.01)
                if done:
                    break
    await prune
    found = await threads.find("target", "", "3")
    assert found is not None
    assert found.values == (value,)


def test_threads_and_tasks_use_one_saver_at_once(url: str, thread: str) -> None:
    saver = HoldfastSaver.from_url(url)

    def work(number: int) -> list[int]:
        where = at(f"{thread}-sync-{number}")
        for step in range(5):
            where = put(saver, where, step)
        return steps(saver, at(f"{thread}-sync-{number}"))

    async def work_async(number: int) -> list[int]:
        where = at(f"{thread}-async-{number}")
        for step in range(5):
            checkpoint, versions = made(step, text=f"{LONG}{step}")
            where = await saver.aput(where, checkpoint, about(step), versions)
            await saver.aput_writes(where, [("text", step)], "task")
        found = await saver.aget_tuple(at(f"{thread}-async-{number}"))
        assert found is not None
        assert found.pending_writes == [("task", "text", 4)]
        return [each.metadata["step"] async for each in saver.alist(at(f"{thread}-async-{number}"))]

    async def together() -> list[list[int]]:
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(4) as pool:
            blocking = [loop.run_in_executor(pool, work, number) for number in range(8)]
            done = await asyncio.gather(*blocking, *(work_async(number) for number in range(100)))
        await saver.aclose()
        return done

    assert asyncio.run(together()) == [[4, 3, 2, 1, 0]] * 108


def test_prune_leaves_what_is_put_at_the_same_moment(saver: HoldfastSaver, thread: str) -> None:
    """Every checkpoint that a run stores while its thread is pruned can be read whole."""
    with ThreadPoolExecutor(1) as pool:
        where = put(saver, at(thread), 0)
        ended = False

        def prune() -> None:
            while not ended:
                saver.prune([thread])

        pruning = pool.submit(prune)
        try:
            for step in range(1, 30):
                where = put(saver, where, step)
                assert newest(saver, thread) == {"text": f"{LONG}{step}", "number": step}
        finally:
            ended = True
        pruning.result(60)
        saver.prune([thread])
        assert steps(saver, at(thread)) == [29]


def fork(saver: HoldfastSaver, first: RunnableConfig, step: int) -> RunnableConfig:
    """Go on from *first*, whose text did not change, as a run does that has loaded it before."""
    checkpoint, versions = made(1, text=f"{LONG}1", number=step)
    return saver.put(first, checkpoint, about(step), {"number": versions["number"]})


def test_fork_from_a_checkpoint_that_was_pruned_keeps_values_that_did_not_change(
    saver: HoldfastSaver, thread: str
) -> None:
    first = put(saver, at(thread), 1)
    put(saver, first, 2)
    saver.prune([thread])
    fork(saver, first, 3)
    assert newest(saver, thread) == {"text": f"{LONG}1", "number": 3}

    async def forked_async() -> None:
        checkpoint, versions = made(1, text=f"{LONG}1", number=4)
        await saver.aput(first, checkpoint, about(4), {"number": versions["number"]})
        await saver._sides.aclose_here()

    saver.prune([thread], strategy="delete")
    asyncio.run(forked_async())
    assert newest(saver, thread) == {"text": f"{LONG}1", "number": 4}


def test_forks_that_are_put_while_their_parent_is_pruned_keep_their_values(saver: HoldfastSaver, thread: str) -> None:
    def forks(number: int) -> None:
        first = put(saver, at(f"{thread}-{number}"), 1)
        for step in range(2, 12):
            here = fork(saver, first, step)
            found = saver.get_tuple(here)
            # It may have been pruned itself by now, being not the newest any more; if it is there it is whole.
            assert found is None or found.checkpoint["channel_values"] == {"text": f"{LONG}1", "number": step}
            put(saver, here, 100 + step)

    with ThreadPoolExecutor(3) as pool:
        running = [pool.submit(forks, number) for number in range(2)]
        while not all(each.done() for each in running):
            with suppress(Retryable):  # a database that gives up on one of two who wait for each other chose this one
                saver.prune([f"{thread}-0", f"{thread}-1"])
        for each in running:
            each.result(60)


def test_change_on_top_of_a_checkpoint_that_was_deleted_is_refused(saver: HoldfastSaver, thread: str) -> None:
    first = put(saver, at(thread), 1)
    saver.delete_thread(thread)
    checkpoint, versions = made(2, number=2)
    changed = about(2, counters_since_delta_snapshot={"messages": (1, 1)})
    with pytest.raises(StorageError, match="deleted meanwhile"):
        saver.put(first, checkpoint, changed, versions)
    assert saver.get_tuple(at(thread)) is None


def test_saver_with_an_allowlist_uses_the_same_database(fresh_database: Callable[[str], str]) -> None:
    serde = JsonPlusSerializer(allowed_msgpack_modules=[("uuid", "UUID")])
    with HoldfastSaver.from_url(fresh_database("sqlite"), serde=serde) as saver:
        put(saver, at("t"), 1)
        stricter = saver.with_allowlist([("decimal", "Decimal")])
        assert stricter is not saver
        assert isinstance(stricter, HoldfastSaver)
        assert newest(stricter, "t") == {"text": f"{LONG}1", "number": 1}


def test_saver_opens_again_after_it_was_closed(fresh_database: Callable[[str], str]) -> None:
    saver = HoldfastSaver.from_url(fresh_database("sqlite"))
    put(saver, at("t"), 1)
    saver.close()
    assert newest(saver, "t")["number"] == 1
    saver.close()


def test_file_url_is_refused_with_the_reason() -> None:
    with pytest.raises(InvalidURL, match=r"sqlite:///path\.db"):
        HoldfastSaver.from_url("file:///tmp/agents")


def test_config_without_a_thread_is_refused(fresh_database: Callable[[str], str]) -> None:
    with HoldfastSaver.from_url(fresh_database("sqlite")) as saver:
        with pytest.raises(ConfigurationError, match="thread_id"):
            saver.get_tuple({"configurable": {}})
        with pytest.raises(ConfigurationError, match="thread_id"):
            list(saver.list({"configurable": {}}))
        with pytest.raises(ConfigurationError, match="checkpoint_id"):
            saver.put_writes(at("t"), [("a", 1)], "task")
