"""Lists of steps as flows, on every backend and in both colours."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import (
    ConfigurationError,
    MisuseError,
    NotFoundError,
    StaleCheckpoint,
    StorageError,
)
from holdfast.stores import (
    CheckpointBehavior,
    CheckpointStatus,
    aresume,
    arun_steps,
    ask,
    pause_until,
    resume,
    run_steps,
)
from holdfast.testing.colours import Colour
from holdfast.testing.contract.store_flow_stage import make_backend

if TYPE_CHECKING:
    from holdfast.stores import CheckpointBackend, FlowCheckpoint
    from holdfast.testing.contract.store_ground import Ground, StoreVenue


class Player:
    """Runs and resumes in the colour of the test."""

    def __init__(self, ground: Ground, **options: Any) -> None:
        self.backend: CheckpointBackend = make_backend(ground, **options)
        self._sync = ground.colour is Colour.SYNC
        ground.afterwards.push_async_callback(self.backend.aclose)

    async def run(self, flow_id: str, steps: Any, **options: Any) -> FlowCheckpoint:
        if self._sync:
            return await asyncio.to_thread(run_steps, flow_id, steps, self.backend, **options)
        return await arun_steps(flow_id, steps, self.backend, **options)

    async def resume(self, checkpoint_id: str, steps: Any, **options: Any) -> FlowCheckpoint:
        if self._sync:
            return await asyncio.to_thread(resume, checkpoint_id, steps, self.backend, **options)
        return await aresume(checkpoint_id, steps, self.backend, **options)


class FlowStepsContract:
    """A checkpoint after each step, and no step twice."""

    def test_steps_pass_their_values_on_and_leave_a_chain(self, store_venue: StoreVenue) -> None:
        def double(value: int) -> int:
            return value * 2

        async def add(value: int) -> int:
            return value + 1

        async def scene(ground: Ground) -> None:
            player = Player(ground)
            last = await player.run("sums", [double, ("plus", add), ("again", double)], input=5, metadata={"by": "me"})
            assert last.status is CheckpointStatus.COMPLETED
            assert last.get_node_output("again") == 22
            assert last.completed_node_ids == ["double", "plus", "again"]
            chain = await player.backend.aget_chain(last.id)
            assert [len(each.completed_node_ids) for each in chain] == [3, 2, 1, 0]
            assert {each.metadata["by"] for each in chain} == {"me"}
            assert await player.resume(
                last.id, [double, ("plus", add), ("again", double)]
            ) == await player.backend.aload(last.id)

        store_venue.play(scene)

    def test_replacing_keeps_one_checkpoint(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            player = Player(ground)
            last = await player.run("one", [("a", str), ("b", len)], input=12, behavior=CheckpointBehavior.REPLACE)
            [only] = await player.backend.alist_by_flow("one")
            assert (only.id, only.status, only.get_node_output("b")) == (last.id, CheckpointStatus.COMPLETED, 2)

        store_venue.play(scene)

    @pytest.mark.parametrize("behavior", CheckpointBehavior)
    def test_a_question_stops_the_flow_until_it_is_answered(
        self, store_venue: StoreVenue, behavior: CheckpointBehavior
    ) -> None:
        calls: list[str] = []

        def prepare(value: str) -> str:
            calls.append("prepare")
            return value.upper()

        def approve(value: str) -> str:
            first = ask("Send it?", draft=value)
            second = ask("Really?")
            return f"{value} {first} {second}"

        steps = [prepare, approve]

        async def scene(ground: Ground) -> None:
            player = Player(ground)
            calls.clear()
            waiting = await player.run("letter", steps, input="hi", behavior=behavior)
            assert waiting.status is CheckpointStatus.PENDING_INPUT
            [found] = await player.backend.apending_inputs("letter")
            question = found.pending_inputs["approve"]
            assert (found.id, question.prompt, question.metadata) == (waiting.id, "Send it?", {"draft": "HI"})
            for answers in (None, {"prepare": 1}, {"approve": 1, "nobody": 2}):
                with pytest.raises(ConfigurationError):
                    await player.resume(waiting.id, steps, answers=answers, behavior=behavior)
            more = await player.resume(waiting.id, steps, answers={"approve": "yes"}, behavior=behavior)
            assert more.pending_inputs["approve"].prompt == "Really?"
            with pytest.raises(ConfigurationError):  # the old question's answer is none to the new one
                await player.resume(more.id, steps, answers={question.request_id: "yes"}, behavior=behavior)
            by_request = {more.pending_inputs["approve"].request_id: "sure"}
            last = await player.resume(more.id, steps, answers=by_request, behavior=behavior)
            assert last.get_node_output("approve") == "HI yes sure"
            assert calls == ["prepare"]
            assert await player.backend.apending_inputs("letter") == []
            assert last.wf_run_id == waiting.run_id != last.run_id

        store_venue.play(scene)

    def test_flows_may_have_runs_of_the_same_id(self, store_venue: StoreVenue) -> None:
        def approve(_: Any) -> str:
            answer: str = ask("Send it?")
            return answer

        async def scene(ground: Ground) -> None:
            player = Player(ground)
            letter = await player.run("letter", [approve], run_id="17")
            order = await player.run("order", [approve], run_id="17")
            assert await player.backend.anewest_of_run("17") == order.id
            assert await player.backend.anewest_of_run("17", flow_id="letter") == letter.id
            done = await player.resume(letter.id, [approve], answers={"approve": "yes"})
            assert done.status is CheckpointStatus.COMPLETED
            with pytest.raises(StorageError, match="has gone on"):
                await player.resume(letter.id, [approve])

        store_venue.play(scene)

    def test_a_step_that_failed_runs_again_and_those_before_do_not(self, store_venue: StoreVenue) -> None:
        calls: list[str] = []

        def first(_: Any) -> int:
            calls.append("first")
            return 1

        def second(value: int) -> int:
            calls.append("second")
            if calls.count("second") == 1:
                raise OSError("not today")
            return value + 1

        async def scene(ground: Ground) -> None:
            player = Player(ground)
            calls.clear()
            with pytest.raises(OSError, match="not today"):
                await player.run("flow", [first, second])
            failed = await player.backend.aget_latest("flow")
            assert failed is not None
            assert failed.status is CheckpointStatus.FAILED
            assert (failed.node_states["second"].status, failed.is_node_completed("second")) == ("failure", False)
            assert isinstance(failed.node_states["second"].error, OSError)
            last = await player.resume(failed.id, [first, second])
            assert (last.get_node_output("second"), last.node_states["second"].error) == (2, None)
            assert calls == ["first", "second", "second"]

        store_venue.play(scene)

    @pytest.mark.parametrize("behavior", CheckpointBehavior)
    def test_the_step_that_is_under_way_stands_in_the_newest_checkpoint(
        self, store_venue: StoreVenue, behavior: CheckpointBehavior
    ) -> None:
        """What would be found if the process died in the middle of a step."""
        seen: list[Any] = []

        async def scene(ground: Ground) -> None:
            player = Player(ground)
            seen.clear()

            async def look(name: str) -> None:
                newest = await player.backend.aget_latest("flow")
                assert newest is not None
                state = newest.node_states[name]
                assert (newest.status, state.completed_at) == (CheckpointStatus.ACTIVE, None)
                assert state.started_at is not None
                begun = [each for each, known in newest.node_states.items() if known.status == "active"]
                seen.append((begun, newest.completed_node_ids, state.error is not None))

            async def first(_: Any) -> int:
                await look("first")
                return 1

            async def second(_: Any) -> int:
                await look("second")
                if len(seen) == 2:
                    raise OSError("not today")
                return 2

            with pytest.raises(OSError, match="not today"):
                await player.run("flow", [first, second], behavior=behavior)
            failed = await player.backend.aget_latest("flow")
            assert failed is not None
            assert failed.status is CheckpointStatus.FAILED
            last = await player.resume(failed.id, [first, second], behavior=behavior)
            assert seen == [(["first"], [], False), (["second"], ["first"], False), (["second"], ["first"], True)]
            assert {state.status for state in last.node_states.values()} == {"success"}

        store_venue.play(scene)

    def test_a_pause_is_found_when_it_is_due(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            player = Player(ground)
            moment = datetime.now(UTC) + timedelta(hours=1)
            now = {"moment": moment}

            def later(_: Any) -> str:
                pause_until(now["moment"])
                return "done"

            waiting = await player.run("timer", [later])
            assert waiting.resume_at == moment
            ground.world.set_clock(moment.timestamp() + 1)
            assert [each.id for each in await player.backend.adue()] == [waiting.id]
            with pytest.raises(ConfigurationError, match="waits for no answer"):
                await player.resume(waiting.id, [later], answers={"later": "for a question that comes later"})
            now["moment"] = datetime.now(UTC)
            last = await player.resume(waiting.id, [later])
            assert last.status is CheckpointStatus.COMPLETED
            assert await player.backend.adue() == []

        store_venue.play(scene)

    def test_one_of_many_who_resume_goes_on(self, store_venue: StoreVenue) -> None:
        calls: list[int] = []

        async def count(_: Any) -> int:
            ask("?")
            calls.append(1)
            await asyncio.sleep(0)
            return 1

        async def scene(ground: Ground) -> None:
            player = Player(ground)
            calls.clear()
            waiting = await player.run("race", [count])

            async def go_on() -> bool:
                try:
                    await player.resume(waiting.id, [count], answers={"count": 1})
                except (StorageError, ConfigurationError):
                    return False
                return True

            results = await asyncio.gather(*(go_on() for _ in range(5)))
            assert (sum(results), len(calls)) == (1, 1)
            with pytest.raises(StorageError, match="gone on"):
                await player.resume(waiting.id, [count])
            fork = await player.resume(waiting.id, [count], fork=True)
            assert fork.status is CheckpointStatus.COMPLETED

        store_venue.play(scene)

    def test_whoever_lost_the_claim_stores_nothing(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            player = Player(ground)
            held: list[Any] = []

            async def slow(_: Any) -> str:
                latest = await other.aget_latest("slow")
                assert latest is not None
                assert await other.aclaim(latest.id) is None
                await ground.advance(61)
                held.append(await other.aclaim(latest.id))
                await other.aclose_here()
                return "too late"

            other = player.backend
            with pytest.raises(StaleCheckpoint):
                await player.run("slow", [slow])
            [only] = await other.alist_by_flow("slow")
            assert only.id == held[0].checkpoint.id
            assert only.completed_node_ids == []

        if store_venue.colour is Colour.ASYNC:
            store_venue.play(scene)

    def test_a_save_that_fails_fails_the_flow(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            player = Player(ground, max_bytes=4000)
            with pytest.raises(StorageError, match="at most 4000"):
                await player.run("bad", [("make", lambda _: "x" * 5000)])
            latest = await player.backend.aget_latest("bad")
            assert latest is not None
            assert latest.status is CheckpointStatus.ACTIVE

        store_venue.play(scene)

    def test_misuse_is_named(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            player = Player(ground)
            with pytest.raises(ConfigurationError, match="name of its own"):
                await player.run("f", [("a", str), ("a", len)])
            with pytest.raises(NotFoundError):
                await player.resume("nobody", [("a", str)])
            with pytest.raises(ValueError, match="nope"):
                await player.run("f", [("a", str)], behavior="nope")
            assert await player.backend.aget_latest("f") is None
            waits = await player.run("f", [("a", lambda _: ask("Sure?"))])
            with pytest.raises(ValueError, match="nope"):
                await player.resume(waits.id, [("a", str)], answers={"a": 1}, behavior="nope")
            assert await player.backend.aclaim(waits.id) is not None
            with pytest.raises(MisuseError, match="arun_steps"):
                run_steps("f", [("a", str)], player.backend)
            with pytest.raises(MisuseError, match="run_steps"):
                ask("outside")

        store_venue.play(scene)


__all__ = ["FlowStepsContract", "Player"]
