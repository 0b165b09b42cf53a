"""One call for each idempotency key, in memory and in the database, in both colours."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import pytest

from holdfast import AsyncHoldfast, Holdfast
from holdfast.db import ConnectionManager
from holdfast.errors import (
    CallTimeout,
    CannotDeserialize,
    CannotSerialize,
    ConfigurationError,
    InvalidKey,
    KeyConflict,
    MisuseError,
    TooLong,
)
from holdfast.stores import DBIdempotencyStore, InMemoryIdempotencyStore, SyncIdempotencyStore
from holdfast.stores.idempotency.store import claims_of
from holdfast.testing.workers import until
from holdfast.testing.world import VirtualWorld

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from holdfast.workflows.application.guarding import Guarding


class Kept(TypedDict, total=False):
    """Where keys are kept, as an option of ``protect``."""

    idempotency_store: InMemoryIdempotencyStore | None


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/app.sqlite"


@pytest.fixture
def app(url: str) -> Iterator[Holdfast]:
    app = Holdfast(url, name="guarded")
    yield app
    app.close()


@pytest.fixture(params=["memory", "database"])
def options(request: pytest.FixtureRequest) -> Kept:
    """Return where keys are kept."""
    return {"idempotency_store": InMemoryIdempotencyStore()} if request.param == "memory" else {}


def counted(app: Guarding, calls: list[Any], **options: Unpack[Kept]) -> Callable[[Any], Any]:
    """Return a function of *app* whose result says how many calls there were."""

    @app.protect("pay", idempotency_key="k", **options)
    def pay(order: Any) -> Any:
        calls.append(order)
        return {"numbers": [len(calls)]}

    return pay


def test_result_that_a_caller_changes_is_not_changed_for_the_next(app: Holdfast, options: Kept) -> None:
    pay = counted(app, [], **options)
    with app:
        first = pay("a")
        first["numbers"].append("changed")
        second = pay("a")
        second["numbers"].clear()
        assert pay("a") == {"numbers": [1]}


def test_many_threads_with_one_key_make_one_call(app: Holdfast, options: Kept) -> None:
    calls: list[int] = []
    at_once = threading.Barrier(8)

    @app.protect("pay", idempotency_key=lambda order: f"k{order}", **options)
    def pay(order: int) -> int:
        calls.append(order)
        return len(calls)

    def race(order: int) -> int:
        at_once.wait(60)
        return pay(order)

    with app, ThreadPoolExecutor(8) as threads:
        for order in range(5):
            assert set(threads.map(race, [order] * 8)) == {order + 1}
    assert calls == list(range(5))


def test_many_tasks_with_one_key_make_one_call(url: str, options: Kept) -> None:
    async def scene() -> None:
        app, calls = AsyncHoldfast(url, name="guarded"), list[int]()

        @app.protect("pay", idempotency_key="k", **options)
        async def pay() -> int:
            calls.append(1)
            await asyncio.sleep(0.01)
            return len(calls)

        async with app:
            assert await asyncio.gather(*(pay() for _ in range(50))) == [1] * 50

    asyncio.run(scene())


def test_threads_and_tasks_share_the_keys_of_one_store(app: Holdfast) -> None:
    store, calls = InMemoryIdempotencyStore(), list[str]()
    begun, go_on = threading.Event(), threading.Event()

    def work(order: str) -> str:
        calls.append(order)
        begun.set()
        assert go_on.wait(60)
        return order

    async def work_async(order: str) -> str:
        calls.append(order)
        return order

    guarded = app.protect("pay", idempotency_key="k", idempotency_store=store)
    pay, pay_async = guarded(work), guarded(work_async)

    async def later() -> str:
        waiting = asyncio.create_task(pay_async("a"))
        await asyncio.sleep(0)  # it has found the key taken
        go_on.set()
        return await waiting

    with ThreadPoolExecutor(1) as threads:  # the application need not be launched
        first = threads.submit(pay, "a")
        assert begun.wait(60)
        assert asyncio.run(later()) == "a"
        assert first.result(60) == "a"
    assert calls == ["a"]


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt, StopIteration])
def test_error_reaches_its_caller_as_it_is_and_releases_the_key(
    app: Holdfast, options: Kept, error: type[BaseException]
) -> None:
    calls: list[int] = []

    @app.protect("pay", idempotency_key="k", breaker=False, **options)
    def pay() -> str:
        calls.append(1)
        if len(calls) == 1:
            raise error
        return "paid"

    with app:
        with pytest.raises(error):
            pay()
        assert pay() == "paid"


def test_error_is_raised_though_the_key_cannot_be_given_back(
    app: Holdfast, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    def pay() -> None:
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as database:
            database.execute("ALTER TABLE holdfast_idempotency RENAME TO elsewhere")
        raise ValueError("card declined")

    async def pay_async() -> None:
        pay()

    guarded = app.protect("pay", idempotency_key="k", breaker=False)
    for call in (guarded(pay), lambda: asyncio.run(guarded(pay_async)())):
        with app, pytest.raises(ValueError, match="card declined"):
            call()
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as database:
            database.execute("ALTER TABLE elsewhere RENAME TO holdfast_idempotency")
            database.execute("DELETE FROM holdfast_idempotency")
    assert caplog.text.count("'protect:pay:k' could not be given back") == 2


def test_result_that_does_not_fit_releases_the_key(app: Holdfast, options: Kept) -> None:
    results: list[Any] = [{"a": object()}, "fine"]

    @app.protect("pay", idempotency_key="k", **options)
    def pay() -> Any:
        return results.pop(0)

    with app:
        with pytest.raises(CannotSerialize, match=r"\$\.a"):
            pay()
        assert pay() == pay() == "fine"


@dataclass(frozen=True)
class Receipt:
    """What a payment returns."""

    order: str
    parts: tuple[int, ...]
    paid: datetime


RECEIPT = Receipt("17", (1, 2), datetime(2030, 1, 1, tzinfo=UTC))


def test_everybody_gets_the_type_that_the_function_returns(app: Holdfast, options: Kept) -> None:
    @app.protect("typed", idempotency_key="k", **options)
    def typed() -> Receipt:
        return RECEIPT

    @app.protect("typed async", idempotency_key="k", timeout=60, **options)
    async def typed_async() -> Receipt:
        return RECEIPT

    @app.protect("plain", idempotency_key="k", **options)
    def plain():  # type: ignore[no-untyped-def]  # noqa: ANN202 -- it says nothing of its result
        return RECEIPT

    with app:
        for _ in range(2):
            assert typed() == asyncio.run(typed_async()) == RECEIPT
            assert plain() == {"order": "17", "parts": [1, 2], "paid": "2030-01-01T00:00:00Z"}


def test_result_that_is_not_of_the_type_releases_the_key(app: Holdfast, options: Kept) -> None:
    results: list[Any] = ["no number", 17]

    @app.protect("pay", idempotency_key="k", **options)
    def pay() -> int:
        result: int = results.pop(0)
        return result

    with app:
        with pytest.raises(CannotDeserialize, match="the result of 'pay'"):
            pay()
        assert pay() == pay() == 17


def test_key_with_other_arguments_is_a_conflict(app: Holdfast, options: Kept) -> None:
    calls: list[str] = []
    pay = counted(app, calls, **options)
    with app:
        pay("a")
        with pytest.raises(KeyConflict, match="'protect:pay:k'"):
            pay("b")
    assert calls == ["a"]


def test_argument_given_by_its_name_is_the_same_as_one_in_its_place(app: Holdfast, options: Kept) -> None:
    calls: list[object] = []

    @app.protect("pay", idempotency_key=lambda order, *_, **__: f"{order}", **options)
    def pay(order: str, cents: int = 5, *, note: str = "") -> int:
        calls.append((order, cents, note))
        return len(calls)

    with app:
        assert pay("a") == pay(order="a") == 1
        assert pay("b", 7, note="n") == pay("b", note="n", cents=7) == pay(note="n", cents=7, order="b") == 2
        with pytest.raises(KeyConflict):
            pay(order="b", cents=8, note="n")
        with pytest.raises(TypeError, match="unexpected keyword"):
            pay(order="c", sum=7)  # type: ignore[call-arg]
    assert calls == [("a", 5, ""), ("b", 7, "n")]


def test_argument_given_by_its_name_is_the_same_for_async_functions(url: str) -> None:
    async def scene() -> None:
        app = AsyncHoldfast(url, name="guarded")

        @app.protect("pay", idempotency_key="k", idempotency_store=InMemoryIdempotencyStore())
        async def pay(order: str) -> str:
            return order

        assert await pay("a") == await pay(order="a") == "a"
        await app.close()

    asyncio.run(scene())


def test_key_that_is_neither_text_nor_a_function_is_refused_where_it_is_given(app: Holdfast) -> None:
    with pytest.raises(ConfigurationError, match="idempotency_key of 'pay'"):
        app.protect("pay", idempotency_key=17)(str)  # type: ignore[call-overload]


def test_each_function_has_keys_of_its_own(app: Holdfast, options: Kept) -> None:
    def pay(order: str) -> str:
        return f"paid {order}"

    def mail(order: str) -> str:
        return f"mailed {order}"

    def key(order: str) -> str:
        return order

    with app:
        for names, orders in (
            (("pay", "mail"), ("17", "17")),
            (("a", "a:b"), ("b:17", "17")),
            (("a%3A", "a:"), ("17", "17")),
        ):
            paying = app.protect(names[0], idempotency_key=key, breaker=False, **options)(pay)
            mailing = app.protect(names[1], idempotency_key=key, breaker=False, **options)(mail)
            for _ in range(2):
                assert (paying(orders[0]), mailing(orders[1])) == (f"paid {orders[0]}", f"mailed {orders[1]}")


@pytest.mark.parametrize("key", ["", "half \ud800", "k" * 513])
def test_key_that_no_database_keeps_is_refused_before_the_call(app: Holdfast, options: Kept, key: str) -> None:
    calls: list[int] = []
    pay = app.protect("pay", idempotency_key=key, **options)(calls.append)
    with app, pytest.raises((InvalidKey, TooLong), match="idempotency key of 'pay'"):
        pay(1)
    assert calls == []


def test_keys_of_a_function_are_not_those_of_the_store(app: Holdfast) -> None:
    store = InMemoryIdempotencyStore()
    asyncio.run(store.set("k", "", "stored by somebody else"))
    assert counted(app, [], idempotency_store=store)("a") == {"numbers": [1]}


def test_cancelled_call_releases_the_key(url: str, options: Kept) -> None:
    async def scene() -> None:
        app, begun, hangs = AsyncHoldfast(url, name="guarded"), asyncio.Event(), [True, False]

        @app.protect("pay", idempotency_key="k", **options)
        async def pay() -> str:
            begun.set()
            if hangs.pop(0):
                await asyncio.Event().wait()
            return "paid"

        async with app:
            task = asyncio.create_task(pay())
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await pay() == "paid"

    asyncio.run(scene())


def test_sync_function_runs_on_its_callers_thread_and_async_one_on_its_callers_loop(
    app: Holdfast, options: Kept
) -> None:
    @app.protect("pay", idempotency_key="sync", **options)
    def pay() -> int:
        return threading.get_ident()

    @app.protect("pay", idempotency_key="async", **options)
    async def pay_async() -> int:
        return id(asyncio.get_running_loop())

    async def both() -> tuple[int, int]:
        return await pay_async(), id(asyncio.get_running_loop())

    with app:
        assert pay() == threading.get_ident()
        one, other = asyncio.run(both())
        assert one == other


def test_result_in_memory_lives_for_the_time_of_its_store(app: Holdfast) -> None:
    world = VirtualWorld()
    store = InMemoryIdempotencyStore(ttl_seconds=60, world=world)
    pay = counted(app, [], idempotency_store=store)
    assert pay("a") == pay("a") == {"numbers": [1]}
    asyncio.run(world.advance(61))
    assert pay("b") == {"numbers": [2]}


def test_close_waits_for_a_thread_at_work_and_its_result_is_stored(url: str) -> None:
    app, begun, go_on = Holdfast(url, name="guarded"), threading.Event(), threading.Event()
    calls: list[int] = []

    @app.protect("pay", idempotency_key="k")
    def pay() -> str:
        calls.append(1)
        begun.set()
        assert go_on.wait(60)
        return "paid"

    app.launch()
    with ThreadPoolExecutor(2) as threads:
        paying = threads.submit(pay)
        assert begun.wait(60)
        closing = threads.submit(app.close)
        until(lambda: not app._engine.launched)  # it has begun to close
        go_on.set()
        assert paying.result(60) == "paid"
        closing.result(60)
    with app:
        assert pay() == "paid"
    assert calls == [1]


def test_keys_in_the_database_need_a_launched_application(app: Holdfast) -> None:
    with pytest.raises(MisuseError, match="not launched"):
        counted(app, [])("a")


def test_only_keys_in_memory_can_be_kept_apart(app: Holdfast, url: str) -> None:
    elsewhere: Any = DBIdempotencyStore(ConnectionManager(url))
    with pytest.raises(ConfigurationError, match="InMemoryIdempotencyStore"):
        app.protect("pay", idempotency_key="k", idempotency_store=elsewhere)


def test_step_keeps_its_keys_in_memory_as_well(app: Holdfast) -> None:
    calls: list[str] = []

    @app.step(idempotency_key=lambda order: order, idempotency_store=InMemoryIdempotencyStore())
    def pay(order: str) -> int:
        calls.append(order)
        return len(calls)

    @app.workflow
    def shop(orders: list[str]) -> list[int]:
        return [pay(order) for order in orders]

    with app:
        assert shop(["a", "b", "a"]) == [1, 2, 1]
    assert calls == ["a", "b"]


def test_call_that_is_interrupted_from_outside_releases_the_key(app: Holdfast) -> None:
    hangs = [True]

    @app.protect("inner", idempotency_key="k", idempotency_store=InMemoryIdempotencyStore(), breaker=False)
    def inner() -> str:
        while hangs[0]:
            pass
        return "paid"

    @app.protect("outer", timeout=0.05, interrupt=True, breaker=False)
    def outer() -> str:
        return inner()

    with pytest.raises(CallTimeout):
        outer()
    hangs[0] = False
    assert inner() == "paid"


def test_claim_that_is_won_for_a_caller_that_has_gone_is_dropped() -> None:
    async def scene() -> None:
        store = InMemoryIdempotencyStore()
        claims = claims_of(store, VirtualWorld(), lease_seconds=30)
        held = claims.hold("k", "f", by_thread=True)
        held.is_over = True
        await claims.take(held)
        assert await store.get("k") is None
        assert held.extending is None
        await claims.close()

    asyncio.run(scene())


def test_forked_child_does_not_wait_for_threads_that_it_does_not_have(app: Holdfast) -> None:
    begun, go_on = threading.Event(), threading.Event()
    parent = os.getpid()

    @app.protect("pay", idempotency_key="k", idempotency_store=InMemoryIdempotencyStore())
    def pay() -> str:
        if os.getpid() != parent:
            return "paid by the child"
        begun.set()
        assert go_on.wait(60)
        return "paid"

    with ThreadPoolExecutor(1) as threads:
        paying = threads.submit(pay)
        assert begun.wait(60)
        child = os.fork()
        if child == 0:
            done = False
            try:
                done = pay() == "paid by the child"
            finally:
                os._exit(0 if done else 1)
        go_on.set()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert paying.result(60) == "paid"


def test_sync_store_in_memory_needs_no_loop() -> None:
    store: Any = SyncIdempotencyStore(InMemoryIdempotencyStore(), portal=None)  # type: ignore[arg-type]
    with store:
        assert store.try_claim("k", "f") is True
        store.store_result("k", {"a": 1})
        assert store.get("k")["response_data"] == {"a": 1}
