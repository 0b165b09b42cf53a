"""What the idempotent executor must do, on every idempotency store and in both colours."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import CannotSerialize, ClaimLost, KeyConflict, KeyInUse, MisuseError
from holdfast.stores import IdempotentExecutor, SyncIdempotentExecutor
from holdfast.testing.contract.store_ground import elsewhere
from holdfast.testing.contract.store_idempotency import TABLES, open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Self

    from holdfast.testing.contract.store_ground import Ground, StoreVenue


class LocalRuntime:
    """A runtime of somebody else's: sync, a context manager, with a pair as its answer."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.calls: list[Any] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def execute(self, workflow: Any, parameters: Mapping[str, Any] | None = None) -> tuple[Any, str]:
        """Call the function; the run id counts the calls."""
        self.calls.append((workflow, parameters))
        number = len(self.calls)
        return self._function(workflow, parameters), f"run-{number}"


class AsyncRuntime(LocalRuntime):
    """The same, async."""

    async def execute(self, workflow: Any, parameters: Mapping[str, Any] | None = None) -> Any:  # type: ignore[override]
        """Await the function; the run id counts the calls."""
        self.calls.append((workflow, parameters))
        number = len(self.calls)
        found = self._function(workflow, parameters)
        return (await found if asyncio.iscoroutine(found) else found), f"run-{number}"


def upper(_: Any, parameters: Mapping[str, Any]) -> Any:
    """Do what the document's workflow does."""
    return {"process": {"output": parameters["process"]["data"].upper()}}


async def open_executor(ground: Ground, store: Any, **options: Any) -> Any:
    """Return an executor on *store* in the colour of *ground*."""
    bare = store.blocking._store if hasattr(store, "blocking") else store  # noqa: SLF001 -- the async store behind
    executor = IdempotentExecutor(bare, **options)
    ground.afterwards.push_async_callback(_closed, ground, executor)
    return ground.face(executor, SyncIdempotentExecutor)


async def _closed(ground: Ground, executor: IdempotentExecutor) -> None:
    await ground.on_loop(executor.close())


HELLO = {"process": {"data": "hello"}}


class ExecutorContract:
    """One execution a key, and its results for whoever asks."""

    @pytest.mark.parametrize("runtime_type", [LocalRuntime, AsyncRuntime])
    def test_documented_example_runs_as_written(
        self, store_venue: StoreVenue, runtime_type: type[LocalRuntime]
    ) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            executor = await open_executor(ground, store, ttl_seconds=3600)
            with runtime_type(upper) as runtime:
                results, run_id = await executor.execute(
                    runtime, "wf", parameters=HELLO, idempotency_key="request-abc-123"
                )
                assert results == {"process": {"output": "HELLO"}}
                results2, run_id2 = await executor.execute(
                    runtime, "wf", parameters=HELLO, idempotency_key="request-abc-123"
                )
            assert (results2, run_id2) == (results, run_id) == (results, "run-1")
            assert runtime.calls == [("wf", HELLO)]

        self._play(store_venue, scene)

    def test_without_a_key_nothing_is_stored(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            executor = await open_executor(ground, store)
            runtime = LocalRuntime(upper)
            for number in (1, 2):
                assert (await executor.execute(runtime, "wf", parameters=HELLO))[1] == f"run-{number}"
            answer = {"not": {"JSON"}}
            assert (await executor.execute(LocalRuntime(lambda *_: answer), "wf"))[0] is answer

        self._play(store_venue, scene)

    def test_time_to_live_is_honoured(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            executor = await open_executor(ground, store, ttl_seconds=86400)
            runtime = LocalRuntime(upper)
            first = await executor.execute(runtime, "wf", HELLO, "k")
            await ground.advance(86000)
            assert await executor.execute(runtime, "wf", HELLO, "k") == first
            await ground.advance(1000)
            again = await executor.execute(runtime, "wf", HELLO, "k")
            assert again[1] == "run-2"
            assert await executor.execute(runtime, "wf", HELLO, "k") == again
            assert len(runtime.calls) == 2

        self._play(store_venue, scene)

    def test_failure_releases_the_key_and_reaches_the_caller(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            executor = await open_executor(ground, store)
            outcomes: list[Any] = [ValueError("first"), KeyboardInterrupt(), SystemExit(3), "done"]

            async def work(*_: Any) -> Any:
                outcome = outcomes.pop(0)
                if isinstance(outcome, Exception):
                    raise outcome
                return outcome

            runtime = AsyncRuntime(work)
            with pytest.raises(ValueError, match="first"):
                await executor.execute(runtime, "wf", {}, "k")
            assert await store.get("k") is None
            del outcomes[:2]
            assert await executor.execute(runtime, "wf", {}, "k") == ("done", "run-2")

        self._play(store_venue, scene)

    @pytest.mark.parametrize("error", [StopIteration, SystemExit, KeyboardInterrupt])
    def test_end_of_the_program_on_a_thread_is_a_failure_like_another(
        self, store_venue: StoreVenue, error: type[BaseException]
    ) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            executor = await open_executor(ground, store)
            outcomes: list[BaseException | None] = [error(), None]

            def work(*_: Any) -> str:
                raised = outcomes.pop(0)
                if raised is not None:
                    raise raised
                return "done"

            runtime = LocalRuntime(work)
            with pytest.raises(RuntimeError, match=error.__name__):
                await executor.execute(runtime, "wf", {}, "k")
            assert await executor.execute(runtime, "wf", {}, "k") == ("done", "run-2")

        self._play(store_venue, scene)

    def test_parameters_without_a_json_form_tell_calls_apart(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            executor = await open_executor(ground, await open_store(ground))
            runtime = LocalRuntime(lambda *_: "done")
            odd = [{1: 2}, {(1, 2): 3}, {1, "a"}, "half \ud800", 10**5000, {"a": {b"k": 1}}]
            for number, parameter in enumerate(odd):
                first = await executor.execute(runtime, "wf", {"a": parameter}, f"k{number}")
                assert await executor.execute(runtime, "wf", {"a": parameter}, f"k{number}") == first
                for other in odd[:number]:
                    with pytest.raises(KeyConflict):
                        await executor.execute(runtime, "wf", {"a": other}, f"k{number}")
            assert len(runtime.calls) == len(odd)

        self._play(store_venue, scene)

    def test_results_that_do_not_fit_release_the_key(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            executor = await open_executor(ground, store)
            with pytest.raises(CannotSerialize, match=r"results\.a"):
                await executor.execute(LocalRuntime(lambda *_: {"a": object()}), "wf", {}, "k")
            assert await store.get("k") is None
            with pytest.raises(MisuseError, match="not a pair"):
                await executor.execute(_NoPair(), "wf", {}, "k")
            assert await executor.execute(LocalRuntime(upper), "wf", HELLO, "k")

        self._play(store_venue, scene)

    def test_second_caller_is_told_that_another_worker_has_the_key(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            executor = await open_executor(ground, store)
            begun, go_on = threading.Event(), threading.Event()

            def work(*_: Any) -> str:
                begun.set()
                assert go_on.wait(60)
                return "done"

            runtime = LocalRuntime(work)
            first = asyncio.create_task(executor.execute(runtime, "wf", {}, "k"))
            await asyncio.to_thread(begun.wait, 60)
            with pytest.raises(RuntimeError, match="claimed by another worker") as raised:
                await elsewhere(executor.execute(runtime, "wf", {}, "k"))
            assert isinstance(raised.value, KeyInUse)
            go_on.set()
            assert await first == ("done", "run-1")
            assert await executor.execute(runtime, "wf", {}, "k") == ("done", "run-1")

        self._play(store_venue, scene)

    def test_callers_that_wait_get_the_result_of_the_first(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            executor = await open_executor(ground, store, in_progress="wait")
            runtime = AsyncRuntime(lambda *_: asyncio.sleep(0.05, "done"))
            calls = [elsewhere(executor.execute(runtime, "wf", {}, "k")) for _ in range(10)]
            assert Counter(await asyncio.gather(*calls)) == {("done", "run-1"): 10}

        self._play(store_venue, scene)

    def test_waiting_has_an_end(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            executor = await open_executor(ground, store, in_progress="wait", wait_seconds=0.05)
            await store.claim("k", "somebody else's", token="t")  # noqa: S106 -- no secret
            with pytest.raises(KeyConflict):
                await elsewhere(executor.execute(LocalRuntime(upper), "wf", HELLO, "k"))
            patient = await open_executor(
                ground, store, in_progress="wait", wait_seconds=0.05, on_conflict="return_stored"
            )
            with pytest.raises(KeyInUse):
                await elsewhere(patient.execute(LocalRuntime(upper), "wf", HELLO, "k"))

        self._play(store_venue, scene)

    def test_key_with_another_call_is_a_conflict_unless_told_otherwise(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            executor = await open_executor(ground, store)
            runtime = LocalRuntime(upper)
            first = await executor.execute(runtime, "wf", HELLO, "k")
            for workflow, parameters in (("wf", {"process": {"data": "other"}}), ("another", HELLO)):
                with pytest.raises(KeyConflict, match="'k'"):
                    await executor.execute(runtime, workflow, parameters, "k")
            lenient = await open_executor(ground, store, on_conflict="return_stored")
            assert await lenient.execute(runtime, "another", HELLO, "k") == first
            assert len(runtime.calls) == 1

        self._play(store_venue, scene)

    def test_long_work_keeps_its_claim(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            executor = await open_executor(ground, store, lease_seconds=0.3)
            begun, go_on = threading.Event(), threading.Event()

            def work(*_: Any) -> str:
                begun.set()
                assert go_on.wait(60)
                return "done"

            first = asyncio.create_task(executor.execute(LocalRuntime(work), "wf", {}, "k"))
            await asyncio.to_thread(begun.wait, 60)
            ends = set[str]()
            while len(ends) < 4:  # it is extended again and again
                entry = await store.get("k")  # a busy machine may be late with it, and it is not seen then
                ends |= {entry["expires_at"]} if entry else set()
                await asyncio.sleep(0.01)
                await ground.advance(0.001)
            go_on.set()
            assert await first == ("done", "run-1")

        self._play(store_venue, scene)

    def test_work_that_lost_its_claim_stores_nothing(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            executor = await open_executor(ground, store, lease_seconds=50)
            begun, go_on = threading.Event(), threading.Event()

            def work(*_: Any) -> str:
                begun.set()
                assert go_on.wait(60)
                return "late"

            first = asyncio.create_task(executor.execute(LocalRuntime(work), "wf", {}, "k"))
            await asyncio.to_thread(begun.wait, 60)
            await ground.advance(60)
            heir = await open_executor(ground, store)
            assert await elsewhere(heir.execute(LocalRuntime(lambda *_: "heir's"), "wf", {}, "k"))
            go_on.set()
            with pytest.raises(ClaimLost):
                await first
            assert (await heir.execute(LocalRuntime(upper), "wf", {}, "k"))[0] == "heir's"

        self._play(store_venue, scene)

    def test_documented_retry_pattern_comes_to_the_result(self, store_venue: StoreVenue) -> None:
        async def execute_with_retry(
            executor: Any, runtime: Any, wf: Any, params: Any, key: str, max_retries: int = 3
        ) -> Any:
            for attempt in range(max_retries):
                try:
                    return await executor.execute(runtime, wf, parameters=params, idempotency_key=key)
                except RuntimeError as e:
                    if "claimed by another worker" in str(e) and attempt < max_retries - 1:
                        await asyncio.sleep(0.05 * (attempt + 1))
                        continue
                    raise
            raise AssertionError

        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            executor = await open_executor(ground, store)
            runtime = AsyncRuntime(lambda *_: asyncio.sleep(0.01, "done"))
            calls = [elsewhere(execute_with_retry(executor, runtime, "wf", {}, "k", max_retries=200)) for _ in range(3)]
            assert set(await asyncio.gather(*calls)) == {("done", "run-1")}

        self._play(store_venue, scene)

    def test_cancelled_call_of_an_async_runtime_releases_the_key(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            bare = IdempotentExecutor(store.blocking._store if hasattr(store, "blocking") else store)  # noqa: SLF001 -- the async store behind
            begun = threading.Event()

            async def work(*_: Any) -> None:
                begun.set()
                await asyncio.Event().wait()

            async def cancelled() -> None:
                task = asyncio.create_task(bare.execute(AsyncRuntime(work), "wf", {}, "k"))
                await asyncio.to_thread(begun.wait, 60)
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

            await ground.on_loop(cancelled())
            assert await store.get("k") is None

        self._play(store_venue, scene)

    def test_cancelled_call_of_a_thread_stores_its_results_when_it_ends(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            bare = IdempotentExecutor(store.blocking._store if hasattr(store, "blocking") else store)  # noqa: SLF001 -- the async store behind
            begun, go_on = threading.Event(), threading.Event()

            def work(*_: Any) -> str:
                begun.set()
                assert go_on.wait(60)
                return "done"

            async def cancelled() -> None:
                task = asyncio.create_task(bare.execute(LocalRuntime(work), "wf", {}, "k"))
                await asyncio.to_thread(begun.wait, 60)
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

            await ground.on_loop(cancelled())
            assert (await store.get("k"))["status_code"] == 0
            go_on.set()
            await ground.on_loop(bare.close())
            assert (await store.get("k"))["response_data"] == {"results": "done", "run_id": "run-1"}

        self._play(store_venue, scene)

    def _play(self, venue: StoreVenue, scene: Any) -> None:
        venue.play(scene, empty=TABLES if venue.is_sql else ())


class _NoPair:
    def execute(self, workflow: Any, parameters: Any = None) -> str:  # noqa: ARG002 -- a runtime's signature
        """Return no pair."""
        return "no pair"


__all__ = ["AsyncRuntime", "ExecutorContract", "LocalRuntime", "open_executor"]
