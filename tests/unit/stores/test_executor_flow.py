"""The executor's way through its flow chart, as a table; and what it costs."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.db import ConnectionManager, Pipeline
from holdfast.errors import ConfigurationError, KeyConflict, KeyInUse
from holdfast.stores import DBIdempotencyStore, IdempotentExecutor, InMemoryIdempotencyStore, StoreFactory
from holdfast.stores.idempotency.executor import call_fingerprint
from holdfast.testing.contract.store_wrong_values import NO_KEYS
from holdfast.testing.world import VirtualWorld

if TYPE_CHECKING:
    from pathlib import Path

MARK = call_fingerprint("wf", {"a": 1})
STORED = {"results": "stored", "run_id": "run-0"}
FRESH, OLD = ("fresh", "run-1"), ("stored", "run-0")
FAILS = ZeroDivisionError


class Runtime:
    """Counts its executions, and fails if told to."""

    def __init__(self, *, fails: bool) -> None:
        self.executions = 0
        self._fails = fails

    async def execute(self, workflow: Any, parameters: Any = None) -> tuple[str, str]:
        self.executions += 1
        if self._fails:
            raise ZeroDivisionError
        return "fresh", "run-1"


async def prepare(store: InMemoryIdempotencyStore, world: VirtualWorld, state: str) -> None:
    """Bring the key to where it stands before the call."""
    mark = "another call" if "another" in state else MARK
    if "claimed" in state:
        await store.claim("k", mark, lease_seconds=10, token="somebody's")
    if "stored" in state:
        await store.set("k", mark, STORED, ttl_seconds=10)
    if "expired" in state:
        await world.advance(11)


@pytest.mark.parametrize(
    ("state", "fails", "outcome", "executed", "left"),
    [
        ("free", False, FRESH, True, 200),
        ("free", True, FAILS, True, None),
        ("stored", False, OLD, False, 200),
        ("stored, expired", False, FRESH, True, 200),
        ("stored, expired", True, FAILS, True, None),
        ("stored for another call", False, KeyConflict, False, 200),
        ("stored for another call, expired", False, FRESH, True, 200),
        ("claimed", False, KeyInUse, False, 0),
        ("claimed, expired", False, FRESH, True, 200),
        ("claimed, expired", True, FAILS, True, None),
        ("claimed for another call", False, KeyConflict, False, 0),
        ("claimed for another call, expired", False, FRESH, True, 200),
    ],
)
def test_flow(state: str, fails: bool, outcome: Any, executed: bool, left: int | None) -> None:
    async def scene() -> None:
        world = VirtualWorld()
        store = InMemoryIdempotencyStore(world=world)
        await asyncio.create_task(prepare(store, world, state))
        runtime, executor = Runtime(fails=fails), IdempotentExecutor(store, world=world)
        if isinstance(outcome, tuple):
            assert await executor.execute(runtime, "wf", {"a": 1}, "k") == outcome
        else:
            with pytest.raises(outcome):
                await executor.execute(runtime, "wf", {"a": 1}, "k")
        assert runtime.executions == executed
        entry = await store.get("k")
        assert (entry and entry["status_code"]) == left

    asyncio.run(scene())


def test_execution_costs_two_commits_and_a_stored_one_writes_nothing(tmp_path: Path) -> None:
    async def scene() -> None:
        async with (
            ConnectionManager(f"sqlite:///{tmp_path}/keys.db") as manager,
            Pipeline(manager) as pipeline,
            DBIdempotencyStore(manager, pipeline=pipeline) as store,
        ):
            executor = IdempotentExecutor(store)
            await executor.execute(Runtime(fails=False), "wf", {}, "k")
            assert pipeline.commits == 2
            before = await manager.fetch("SELECT * FROM holdfast_idempotency")
            await executor.execute(Runtime(fails=False), "wf", {}, "k")
            assert await manager.fetch("SELECT * FROM holdfast_idempotency") == before

    asyncio.run(scene())


@pytest.mark.parametrize("is_async", [True, False])
def test_error_of_the_runtime_is_raised_though_its_key_cannot_be_given_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_async: bool
) -> None:
    async def scene() -> None:
        factory = StoreFactory(f"sqlite:///{tmp_path}/keys.db")
        store = await factory.create_idempotency_store()
        assert store is not None
        loop = asyncio.get_running_loop()

        class Closing:
            async def execute(self, *_: Any, **__: Any) -> Any:
                await factory.close()
                raise ValueError("card declined")

        class ClosingOnThread:
            def execute(self, *_: Any, **__: Any) -> Any:
                asyncio.run_coroutine_threadsafe(factory.close(), loop).result(60)
                raise ValueError("card declined")

        executor = IdempotentExecutor(store)
        with pytest.raises(ValueError, match="card declined"):
            await executor.execute(Closing() if is_async else ClosingOnThread(), "wf", {}, "k")
        await executor.close()

    asyncio.run(scene())
    assert "'k' could not be given back" in caplog.text


def test_fingerprint_of_a_call_is_the_same_in_every_process_and_tells_calls_apart() -> None:
    def workflow() -> None: ...

    assert call_fingerprint("wf", {"a": 1, "b": [2]}) == call_fingerprint("wf", {"b": [2], "a": 1})
    assert len({call_fingerprint(one, {"a": 1}) for one in ("wf", "other", workflow, Runtime(fails=False))}) == 4
    assert call_fingerprint("wf", None) == call_fingerprint("wf", {})
    assert call_fingerprint("wf", {"a": object()}) == call_fingerprint("wf", {"a": object()})
    assert call_fingerprint("wf", {"a": {object(): 1}}) == call_fingerprint("wf", {"a": {object(): 1}})


@dataclass(frozen=True)
class Order:
    """A parameter with parts."""

    parts: Any


def test_fingerprint_does_not_go_by_the_order_of_sets_and_dicts() -> None:
    program = (
        "from holdfast.stores.idempotency.fingerprint import digest\n"
        "print(digest('wf', {'a': {'x', 'y', 3, (1, 'z')}, 'b': {('p',): 1, 'q': {'r', 's', 4}}}))"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(said) == 1


def test_fingerprint_looks_into_objects_whose_parts_have_no_json_form() -> None:
    orders = [Order({1, "a"}), Order({1, "b"}), Order({(1, 2): 3}), Order("half \ud800")]
    assert len({call_fingerprint("wf", {"order": each}) for each in orders}) == len(orders)


def test_settings_that_cannot_be_meant_are_refused() -> None:
    store = InMemoryIdempotencyStore()
    wrong: list[dict[str, Any]] = [
        {"on_conflict": "x"},
        {"in_progress": "x"},
        {"ttl_seconds": 0},
        {"lease_seconds": -1},
    ]
    for settings in wrong:
        with pytest.raises(ValueError, match=next(iter(settings))):
            IdempotentExecutor(store, **settings)


class Run:
    """A workflow whose runs have ids that can be chosen, as ours have."""

    def options(self, **options: str) -> Run:
        raise AssertionError(options)

    def start(self, *args: Any) -> None:
        raise AssertionError(args)


@pytest.mark.parametrize("workflow", ["wf", Run()])
@pytest.mark.parametrize(("key", "error"), NO_KEYS[1:])  # None means that there is no key
def test_key_that_no_store_keeps_is_refused_whatever_is_executed(
    workflow: Any, key: Any, error: type[Exception]
) -> None:
    async def scene() -> None:
        runtime = Runtime(fails=False)
        executor = IdempotentExecutor(InMemoryIdempotencyStore())
        with pytest.raises(error, match="idempotency key"):
            await executor.execute(runtime, workflow, {"a": 1}, idempotency_key=key)
        assert runtime.executions == 0

    asyncio.run(scene())


def test_executor_without_a_store_says_where_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOLDFAST_DATABASE_URL", "DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)

    async def scene() -> None:
        async with StoreFactory(folder=tmp_path) as factory:
            store = await factory.create_idempotency_store()
            assert store is None  # as documented: there is none at Level 0
            with pytest.raises(
                ConfigurationError, match=r"not by NoneType.*name one, or make an InMemoryIdempotencyStore"
            ):
                IdempotentExecutor(store, ttl_seconds=60)  # type: ignore[arg-type]

    asyncio.run(scene())
