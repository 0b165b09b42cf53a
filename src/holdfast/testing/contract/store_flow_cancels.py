"""Tasks that are cancelled while they store, claim or run a flow: nothing is lost, and nothing stays held."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import DamagedCheckpoint
from holdfast.stores import CheckpointStatus, aresume, arun_steps
from holdfast.testing.colours import Colour
from holdfast.testing.contract.store_flow_stage import checkpoint, make_backend

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from holdfast.stores import CheckpointBackend
    from holdfast.testing.contract.store_ground import Ground, StoreVenue

_ROUNDS = 10


@dataclass(frozen=True)
class Kind:
    """What a process has loaded or has not."""

    number: int


async def cut_short(work: Callable[[], Coroutine[Any, Any, Any]]) -> AsyncIterator[bool]:
    """Do *work* once to its end, then again and again, each time cancelled a little later; yield whether it was."""
    began = time.monotonic()
    await work()
    whole = time.monotonic() - began
    for number in range(_ROUNDS):
        task = asyncio.ensure_future(work())
        await asyncio.sleep(whole * number / _ROUNDS)
        task.cancel()
        await asyncio.wait([task])
        yield task.cancelled()
        if not task.cancelled():
            task.result()


class FlowCancelContract:
    """A cancelled call is told when what it began is done; then what is claimed is free, and what is stored stays."""

    def test_a_cancelled_claim_holds_nothing(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            backend = _backend(ground)
            free = [await backend.asave(checkpoint(status=CheckpointStatus.PAUSED)) for _ in range(_ROUNDS + 1)]
            asked: list[str] = []

            async def claim() -> None:
                asked.append(free.pop())
                await backend.aclaim(asked[-1])

            async for cancelled in cut_short(claim):
                assert (await backend.aclaim(asked[-1]) is not None) == cancelled

        _play(store_venue, scene)

    def test_a_cancelled_save_may_be_made_again(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            backend = _backend(ground)
            made = checkpoint()

            async def save() -> None:
                await backend.asave(made)

            async for _ in cut_short(save):
                await backend.asave(made)
            found = await backend.aload(made.id)
            assert found is not None
            assert found.revision == made.revision

        _play(store_venue, scene)

    def test_a_cancelled_flow_has_stored_what_was_done_and_may_be_resumed_at_once(
        self, store_venue: StoreVenue
    ) -> None:
        calls: list[str] = []

        async def first(_: Any) -> int:
            calls.append("first")
            return 1

        async def second(_: Any) -> int:
            calls.append("second")
            return 2

        async def scene(ground: Ground) -> None:
            backend = _backend(ground)

            async def run() -> None:
                calls.clear()
                await arun_steps("flow", [first, second], backend, run_id=ground.world.new_id())

            async for _ in cut_short(run):
                newest = await backend.aget_latest("flow")
                assert newest is not None
                assert newest.completed_node_ids == calls
                last = await aresume(newest.id, [first, second], backend)
                assert last.get_node_output("second") == 2
                assert calls == ["first", "second"]

        _play(store_venue, scene)

    def test_a_step_that_ends_as_its_flow_is_cancelled_is_not_called_again(self, store_venue: StoreVenue) -> None:
        calls: list[str] = []
        flows: list[asyncio.Future[Any]] = []

        async def cancelled_after(_: Any) -> int:
            calls.append("after")
            asyncio.get_running_loop().call_soon(flows[0].cancel)
            return 1

        async def cancelled_within(_: Any) -> int:
            calls.append("within")
            flows[0].cancel()
            return 2

        async def scene(ground: Ground) -> None:
            backend = _backend(ground)
            calls.clear()
            steps = [cancelled_after, cancelled_within]
            work: Coroutine[Any, Any, Any] = arun_steps("flow", steps, backend)
            for ended in range(1, 3):
                flows[:] = [asyncio.ensure_future(work)]
                await asyncio.wait(flows)
                assert flows[0].cancelled()
                newest = await backend.aget_latest("flow")
                assert newest is not None
                assert len(newest.completed_node_ids) == ended
                work = aresume(newest.id, steps, backend)
            assert (await work).get_node_output("cancelled_within") == 2
            assert calls == ["after", "within"]

        _play(store_venue, scene)

    def test_a_checkpoint_that_cannot_be_read_is_not_held(
        self, store_venue: StoreVenue, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def scene(ground: Ground) -> None:
            backend = _backend(ground)
            made = checkpoint(metadata={"of": Kind(1)})
            await backend.asave(made)
            with monkeypatch.context() as patched:  # as in a process that has not loaded the class
                patched.delitem(globals(), "Kind")
                with pytest.raises(DamagedCheckpoint, match="Kind"):
                    await backend.aclaim(made.id)
            assert await backend.aclaim(made.id) is not None

        _play(store_venue, scene)


def _backend(ground: Ground) -> CheckpointBackend:
    backend = make_backend(ground)
    ground.afterwards.push_async_callback(backend.aclose)
    return backend


def _play(venue: StoreVenue, scene: Callable[[Ground], Coroutine[Any, Any, None]]) -> None:
    if venue.colour is Colour.ASYNC:  # a thread cannot be cancelled
        venue.play(scene)


__all__ = ["FlowCancelContract"]
