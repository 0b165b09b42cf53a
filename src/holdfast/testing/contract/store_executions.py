"""What every execution store must do, in any colour."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import faults
from holdfast.errors import CannotSerialize, ExecutionConflict, ExecutionNotFound, TooLong, UnknownCommit
from holdfast.stores import DBExecutionStore, InMemoryExecutionStore, SyncExecutionStore
from holdfast.testing.contract.store_events import raised
from holdfast.testing.contract.store_wrong_values import NO_KEYS, NO_NUMBERS

if TYPE_CHECKING:
    from holdfast.stores import ExecutionStore
    from holdfast.testing.contract.store_ground import Ground, StoreVenue

TABLES = ("holdfast_executions",)


async def open_store(ground: Ground, **options: Any) -> Any:
    """Return one more handle on the execution store of *ground*; a memory store has no second one."""
    store: ExecutionStore
    if ground.venue.is_sql:
        store = DBExecutionStore(await ground.manager(), clock_offset_ms=ground.clock_offset_ms, **options)
    else:
        store = InMemoryExecutionStore(world=ground.world, **options)
    await ground.on_loop(store.initialize())
    ground.afterwards.push_async_callback(_closed, ground, store)
    return ground.face(store, SyncExecutionStore)


async def _closed(ground: Ground, store: ExecutionStore) -> None:
    await ground.on_loop(store.close())


def empty(venue: StoreVenue) -> tuple[str, ...]:
    """Return the tables to begin without rows in."""
    return TABLES if venue.is_sql else ()


def ids(executions: list[dict[str, Any]]) -> list[str]:
    """Return the run ids of *executions*."""
    return [each["run_id"] for each in executions]


class ExecutionContract:
    """A run is pending, then completed or failed, and what has ended does not change."""

    def test_execution_goes_from_start_to_completion(self, store_venue: StoreVenue) -> None:
        values = {"text": 'ä☃\n"\\\0', "number": 1.5, "nothing": None, "list": [True, {"deep": []}]}

        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            await store.record_start(
                run_id="r", workflow_id="w", parameters=values, worker_id="worker-1", metadata={"a": [1]}
            )
            pending = await store.get_execution("r")
            assert pending == {
                "run_id": "r",
                "workflow_id": "w",
                "status": "pending",
                "parameters": values,
                "result": None,
                "error": None,
                "started_at": pending["started_at"],
                "completed_at": None,
                "worker_id": "worker-1",
                "metadata": {"a": [1]},
            }
            await ground.advance(1)
            await store.record_completion(run_id="r", results=values)
            ended = await store.get_execution("r")
            assert ended == pending | {
                "status": "completed",
                "result": values,
                "completed_at": ended["completed_at"],
            }
            lasted = datetime.fromisoformat(ended["completed_at"]) - datetime.fromisoformat(ended["started_at"])
            assert lasted.total_seconds() >= 1

        store_venue.play(scene, empty=empty(store_venue))

    def test_failure_keeps_the_error(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            await store.record_start("r")
            await store.record_failure(run_id="r", error="ValueError: \0 is no input \ud800")
            failed = await store.get_execution("r")
            assert (failed["status"], failed["error"]) == (
                "failed",
                "ValueError: \N{REPLACEMENT CHARACTER} is no input ?",
            )
            assert (failed["workflow_id"], failed["parameters"], failed["metadata"]) == (None, None, None)
            with pytest.raises(TypeError, match="text"):
                await store.record_failure("r", ValueError("an error is no text"))

        store_venue.play(scene, empty=empty(store_venue))

    def test_what_has_ended_does_not_change(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            await store.record_start("r", parameters={"n": 1})
            await store.record_completion("r", {"out": 1})
            before = await store.get_execution("r")
            with pytest.raises(ExecutionConflict, match=r"'r' is completed .* not made failed"):
                await store.record_failure("r", "too late")
            with pytest.raises(ExecutionConflict, match="'r' is completed"):
                await store.record_completion("r", {"out": 2})
            with pytest.raises(ExecutionConflict, match="already, it is completed"):
                await store.record_start("r", parameters={"n": 2})
            assert await store.get_execution("r") == before

        store_venue.play(scene, empty=empty(store_venue))

    def test_unknown_run_is_told(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            assert await store.get_execution("nobody") is None
            for ending in (store.record_completion("nobody"), store.record_failure("nobody", "why")):
                with pytest.raises(ExecutionNotFound, match="'nobody'"):
                    await ending
            with pytest.raises(ExecutionNotFound, match="first page"):
                await store.list_executions(after="nobody")

        store_venue.play(scene, empty=empty(store_venue))

    def test_hundred_who_start_or_end_a_run_have_one_winner(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            other = await open_store(ground) if ground.venue.is_sql else store
            starts = [(store, other)[n % 2].record_start("r", parameters=n) for n in range(100)]
            answers = await asyncio.gather(*starts, return_exceptions=True)
            winner = answers.index(None)
            assert sum(isinstance(answer, ExecutionConflict) for answer in answers) == 99
            ends = [
                (store, other)[n % 2].record_completion("r", n) if n % 3 else other.record_failure("r", str(n))
                for n in range(100)
            ]
            answers = await asyncio.gather(*ends, return_exceptions=True)
            last = answers.index(None)
            assert sum(isinstance(answer, ExecutionConflict) for answer in answers) == 99
            kept = await store.get_execution("r")
            assert (kept["parameters"], kept["result"] if last % 3 else int(kept["error"])) == (winner, last)

        store_venue.play(scene, empty=empty(store_venue))

    def test_of_starts_at_once_only_those_of_a_taken_run_id_are_refused(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            await store.record_start("r7", parameters="first")
            names = [*(f"r{n}" for n in range(40)), "r11"]
            answers = await asyncio.gather(*(store.record_start(name) for name in names), return_exceptions=True)
            refused = sorted(name for name, answer in zip(names, answers, strict=True) if answer is not None)
            assert refused == ["r11", "r7"]
            assert all(answer is None or isinstance(answer, ExecutionConflict) for answer in answers)
            assert sorted(ids(await store.list_executions())) == sorted(set(names))
            kept = await store.get_execution("r7")
            assert kept["parameters"] == "first"

        store_venue.play(scene, empty=empty(store_venue))

    def test_list_is_newest_first_filtered_and_paged(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            names = [f"r{n}" for n in (3, 1, 4, 15, 9, 2, 6)]
            for place, name in enumerate(names):
                await store.record_start(name, workflow_id=f"w{place % 2}")
            newest = names[::-1]
            assert ids(await store.list_executions()) == newest
            assert ids(await store.list_executions(limit=2)) == newest[:2]
            assert ids(await store.list_executions(limit=3, after=newest[1])) == newest[2:5]
            assert ids(await store.list_executions(after=newest[-1])) == []
            assert ids(await store.list_executions(workflow_id="w1", limit=2)) == ["r2", "r15"]
            await store.record_completion("r4")
            await store.record_failure("r6", "why")
            assert ids(await store.list_executions()) == newest
            assert ids(await store.list_executions(limit=3, after=newest[1])) == newest[2:5]
            assert ids(await store.list_executions(status="completed")) == ["r4"]
            assert ids(await store.list_executions(status="failed", workflow_id="w0")) == ["r6"]
            assert ids(await store.list_executions(status="pending", after="r15")) == ["r1", "r3"]
            assert await store.list_executions(limit=0) == []
            with pytest.raises(ValueError, match="pending, completed, failed"):
                await store.list_executions(status="running")
            with pytest.raises(ValueError, match="limit"):
                await store.list_executions(limit=-1)
            for wrong in NO_NUMBERS:
                with pytest.raises(ValueError, match="limit"):
                    await store.list_executions(limit=wrong)
            for wrong, refused in NO_KEYS[1:]:
                with pytest.raises(refused, match="workflow id"):
                    await store.list_executions(workflow_id=wrong)
                with pytest.raises(refused, match="run id"):
                    await store.list_executions(after=wrong)

        store_venue.play(scene, empty=empty(store_venue))

    def test_starts_of_one_moment_keep_their_order(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            names = [f"{n * 7919 % 100:02d}" for n in range(100)]
            for some in (names[:50], names[50:]):
                await asyncio.gather(*(store.record_start(name) for name in some))
            listed = ids(await store.list_executions(limit=100))
            assert (set(listed[:50]), set(listed[50:])) == (set(names[50:]), set(names[:50]))
            paged: list[str] = []
            while page := await store.list_executions(limit=7, after=paged[-1] if paged else None):
                paged += ids(page)
            assert paged == listed

        store_venue.play(scene, empty=empty(store_venue))

    def test_what_does_not_fit_is_refused_at_the_door(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            with pytest.raises(CannotSerialize, match=r"\$\.bad"):
                await store.record_start("r", parameters={"bad": object()})
            with pytest.raises(CannotSerialize, match=r"\$\.bad"):
                await store.record_start("r", metadata={"bad": object()})
            with pytest.raises(TooLong):
                await store.record_start("r" * 1000)
            assert await store.get_execution("r") is None
            await store.record_start("r")
            with pytest.raises(CannotSerialize, match=r"\$\[1\]"):
                await store.record_completion("r", [1, object()])
            assert (await store.get_execution("r"))["status"] == "pending"

        store_venue.play(scene, empty=empty(store_venue))

    def test_keys_are_exact(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            names = ["a", "A", "a ", "ä"]
            for name in names:
                await store.record_start(name, workflow_id=name)
            for name in names:
                assert ids(await store.list_executions(workflow_id=name)) == [name]

        store_venue.play(scene, empty=empty(store_venue))

    def test_write_whose_reply_was_lost_happens_once(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            for point in ("pipeline.after_commit", "pipeline.before_commit"):
                faults.arm(point, raised(UnknownCommit("the reply was lost")))
                await store.record_start(point, parameters=1)
                faults.arm(point, raised(UnknownCommit("the reply was lost")))
                await store.record_completion(point, 2)
                faults.disarm()
                kept = await store.get_execution(point)
                assert (kept["status"], kept["parameters"], kept["result"]) == ("completed", 1, 2)

        try:
            store_venue.play(scene, empty=empty(store_venue))
        finally:
            faults.disarm()

    def test_model_agrees(self, store_venue: StoreVenue) -> None:
        """Random calls, each compared with what a dictionary says; the seed is fixed."""

        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            model: dict[str, tuple[str, Any]] = {}
            draw = ground.world.random
            for n in range(60):
                run_id, call = f"r{draw.randrange(8)}", draw.choice(["start", "complete", "fail"])
                status = model.get(run_id, (None, None))[0]
                if call == "start":
                    told, wanted = await _told(store.record_start(run_id, parameters=n)), status is None
                    fate: tuple[str, Any] = ("pending", None)
                elif call == "complete":
                    told, wanted = await _told(store.record_completion(run_id, n)), status == "pending"
                    fate = ("completed", n)
                else:
                    told, wanted = await _told(store.record_failure(run_id, str(n))), status == "pending"
                    fate = ("failed", str(n))
                if wanted:
                    assert told is None
                    model[run_id] = fate
                else:
                    missing = status is None
                    assert isinstance(told, ExecutionNotFound if missing else ExecutionConflict)
            listed = await store.list_executions()
            assert {each["run_id"]: (each["status"], each["result"] or each["error"]) for each in listed} == model

        store_venue.play(scene, empty=empty(store_venue))


async def _told(call: Any) -> Exception | None:
    try:
        await call
    except (ExecutionConflict, ExecutionNotFound) as error:
        return error
    return None
