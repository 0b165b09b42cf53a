"""What goes wrong in the steps of a flow, or around them: nothing is done twice, and nothing stored changes."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import CannotSerialize, DamagedCheckpoint, StorageError
from holdfast.stores import CheckpointStatus, aresume, arun_steps, ask
from holdfast.testing.colours import Colour
from holdfast.testing.contract.store_flow_steps import Player

if TYPE_CHECKING:
    from holdfast.testing.contract.store_ground import Ground, StoreVenue


@dataclass(frozen=True)
class Receipt:
    """What a step gives back that is no plain value."""

    number: int


class FlowStepsFaultsContract:
    """Steps that change what is not theirs, cannot be read, or cannot be stopped."""

    def test_a_step_that_changes_what_it_is_given_or_has_given_changes_nothing_stored(
        self, store_venue: StoreVenue
    ) -> None:
        made: list[list[int]] = []
        given: list[list[int]] = []

        def first(value: list[int]) -> list[int]:
            value.append(0)
            made.append([1])
            return made[-1]

        def second(value: list[int]) -> int:
            given.append(list(value))
            value.append(2)
            made[-1].append(3)
            if len(given) == 1:
                raise OSError("not today")
            return len(value)

        async def scene(ground: Ground) -> None:
            player = Player(ground)
            given.clear()
            with pytest.raises(OSError, match="not today"):
                await player.run("flow", [first, second], input=[])
            failed = await player.backend.aget_latest("flow")
            assert failed is not None
            assert (failed.original_input, failed.get_node_output("first")) == ([], [1])
            last = await player.resume(failed.id, [first, second])
            assert (given, last.get_node_output("second")) == ([[1], [1]], 2)

        store_venue.play(scene)

    def test_a_checkpoint_that_cannot_be_read_here_is_still_the_newest(
        self, store_venue: StoreVenue, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        calls: list[str] = []

        def look(_: Any) -> int:
            return 1

        def charge(_: int) -> Receipt:
            calls.append("charged")
            return Receipt(5)

        def fail(_: Receipt) -> None:
            raise OSError("not today")

        async def scene(ground: Ground) -> None:
            player = Player(ground)
            calls.clear()
            with pytest.raises(OSError, match="not today"):
                await player.run("flow", [look, charge, fail])
            newest, _, before, _ = await player.backend.alist_by_flow("flow")
            with monkeypatch.context() as patched:  # as in a process that has not loaded the class
                patched.delitem(globals(), "Receipt")
                with pytest.raises(DamagedCheckpoint, match="Receipt"):
                    await player.backend.aget_latest("flow")
                assert await player.backend.anewest_of_run(newest.wf_run_id or newest.run_id) == newest.id
                with pytest.raises(StorageError, match="has gone on"):
                    await player.resume(before.id, [look, charge, fail])
            assert calls == ["charged"]
            again = await player.backend.aload(newest.id)
            assert again is not None
            assert again.get_node_output("charge") == Receipt(5)

        store_venue.play(scene)

    def test_a_step_that_returns_or_asks_what_cannot_be_kept_fails(self, store_venue: StoreVenue) -> None:
        def opens(_: Any) -> object:
            return object()

        def asks(_: Any) -> None:
            ask("Which?", choices=[object()])

        async def scene(ground: Ground) -> None:
            player = Player(ground)
            for step, path in ((opens, r"\$\.opens: "), (asks, r"\$\.metadata\.choices\[0\]: ")):
                with pytest.raises(CannotSerialize, match=path):
                    await player.run("flow", [step])
                failed = await player.backend.aget_latest("flow")
                assert failed is not None
                assert failed.status is CheckpointStatus.FAILED
                assert isinstance(failed.node_states[step.__name__].error, CannotSerialize)

        store_venue.play(scene)

    def test_a_step_that_runs_out_of_an_iterator_fails(self, store_venue: StoreVenue) -> None:
        def take(values: list[int]) -> int:
            return next(iter(values))

        async def scene(ground: Ground) -> None:
            player = Player(ground)
            with pytest.raises(RuntimeError, match="StopIteration"):
                await player.run("flow", [take], input=[])
            failed = await player.backend.aget_latest("flow")
            assert failed is not None
            assert failed.status is CheckpointStatus.FAILED

        store_venue.play(scene)

    def test_a_step_that_raises_what_no_task_may_get_fails(self, store_venue: StoreVenue) -> None:
        def leave(error: type[BaseException]) -> None:
            raise error

        async def scene(ground: Ground) -> None:
            player = Player(ground)
            for error in (GeneratorExit, SystemExit, KeyboardInterrupt):
                with pytest.raises(RuntimeError, match=error.__name__):
                    await player.run("flow", [("leave", lambda _, error=error: leave(error))])
                failed = await player.backend.aget_latest("flow")
                assert failed is not None
                assert failed.status is CheckpointStatus.FAILED
                assert await player.backend.aclaim(failed.id) is not None

        store_venue.play(scene)

    def test_nobody_goes_on_while_the_thread_of_a_cancelled_flow_works(self, store_venue: StoreVenue) -> None:
        begun, may_end = threading.Event(), threading.Event()

        def slow(_: Any) -> int:
            begun.set()
            assert may_end.wait(60)
            return 1

        async def scene(ground: Ground) -> None:
            player = Player(ground)
            running = asyncio.create_task(arun_steps("flow", [slow, ("more", str)], player.backend))
            await asyncio.to_thread(begun.wait, 60)
            running.cancel()
            under_way = await player.backend.aget_latest("flow")
            assert under_way is not None
            with pytest.raises(StorageError, match="somebody else"):
                await aresume(under_way.id, [slow, ("more", str)], player.backend)
            may_end.set()
            with pytest.raises(asyncio.CancelledError):
                await running
            stored = await player.backend.aget_latest("flow")
            assert stored is not None
            assert stored.completed_node_ids == ["slow"]  # what was done is not done again
            last = await aresume(stored.id, [slow, ("more", str)], player.backend)
            assert last.get_node_output("more") == "1"

        if store_venue.colour is Colour.ASYNC:
            store_venue.play(scene)


__all__ = ["FlowStepsFaultsContract"]
