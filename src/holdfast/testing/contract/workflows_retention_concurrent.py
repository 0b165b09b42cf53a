"""The contract of a prune beside everything else: nothing is held up, nothing is lost, and it may end at any moment."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.db import ConnectionManager
from holdfast.errors import UnknownCommit
from holdfast.model.world import RealWorld
from holdfast.testing.contract.workflows_retention_stage import (
    apart,
    counts,
    ended,
    flow_of,
    increment,
    prune,
    pruner_on,
    there,
)
from holdfast.testing.contract.workflows_stage import PATIENCE, Stage
from holdfast.workflows.retention import PruneReport, PruneRounds, Retention

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.testing.contract.venue import Venue


@contextmanager
def pruning(stage: Stage, policies: list[Retention]) -> Iterator[list[int]]:
    """Prune without a rest on a thread of its own, by what *policies* says each time; gives how many were deleted."""
    stop, deleted = threading.Event(), list[int]()

    async def work() -> None:
        async with ConnectionManager(stage.url) as manager:
            pruner = pruner_on(stage, manager, batch=20)
            while not stop.is_set():
                deleted.append((await pruner.prune(list(policies))).deleted)
                await asyncio.sleep(0)

    thread = threading.Thread(target=asyncio.run, args=(work(),))
    thread.start()
    try:
        yield deleted
    finally:
        stop.set()
        thread.join(PATIENCE)


class ConcurrentRetentionContract:
    """A prune beside everything else."""

    def test_runs_go_on_and_deliver_their_results_while_ended_ones_are_deleted(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            child, of_child = flow_of(stage, app, "child")
            step = app.step(increment, name=f"{stage.version}-own")

            async def parent(number: int) -> int:
                handle = await child.start(number)
                own = await step(number)
                called = await child(own)
                return int(await handle.result()) + int(called)

            # Whoever has not asked for a result yet may find that the run is gone: parents may go when they were heard.
            names = [f"{stage.version}-parent-{turn}" for turn in range(5)]
            flows = [app.workflow(parent, name=each) for each in names]
            policies = [Retention(older_than=0, name=of_child)]
            async with app:
                with pruning(stage, policies) as deleted:
                    for flow, name in zip(flows, names, strict=True):
                        handles = [await flow.start(number) for number in range(10)]
                        found = [await each.result() for each in handles]
                        assert found == [2 * number + 5 for number in range(10)]
                        policies.append(Retention(older_than=0, name=name))
                    await stage.until(lambda: not any(there(stage, each) for each in [of_child, *names]))
            assert sum(deleted) == 150

        Stage(venue).play(scene)

    def test_two_pruners_at_once_delete_everything_once(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            flow, name = flow_of(stage, app)
            async with app:
                await ended(flow, 60)
            policy = Retention(older_than=0, name=name)

            async def work() -> list[PruneReport]:
                async with ConnectionManager(stage.url) as one, ConnectionManager(stage.url) as two:
                    pruners = [pruner_on(stage, each, batch=7) for each in (one, two)]
                    return list(await asyncio.gather(*(each.prune([policy]) for each in pruners)))

            reports: list[PruneReport] = await apart(stage, work)
            again = await prune(stage, policy)  # what one held while the other came by
            assert sum(each.deleted for each in [*reports, again]) == 60
            assert there(stage, name) == set()

        Stage(venue).play(scene)

    def test_lost_reply_of_a_delete_is_asked_for_and_not_counted_twice(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            flow, name = flow_of(stage, app)
            async with app:
                await ended(flow, 4)

            async def work() -> list[tuple[int, int]]:
                async with _Forgetful(stage.url) as manager:
                    report = await pruner_on(stage, manager, batch=2).prune([Retention(older_than=0, name=name)])
                    assert manager.lost == 2
                    return counts(report)

            assert await apart(stage, work) == [(4, 4)]
            assert there(stage, name) == set()

        Stage(venue).play(scene)

    def test_cancelled_prune_ends_with_its_batch_and_keeps_what_it_did(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            flow, name = flow_of(stage, app)
            async with app:
                await ended(flow, 6)

            async def work() -> None:
                async with ConnectionManager(stage.url) as manager:
                    pruner = pruner_on(stage, manager, batch=2)
                    prune = asyncio.ensure_future(
                        pruner.prune([Retention(older_than=0, name=name)], progress=lambda _: stop())
                    )

                    def stop() -> None:
                        prune.cancel()

                    with pytest.raises(asyncio.CancelledError):
                        await prune
                    assert len(there(stage, name)) in {2, 4}  # the second batch may have begun
                    await pruner.prune([Retention(older_than=0, name=name)])

            await apart(stage, work)
            assert there(stage, name) == set()

        Stage(venue).play(scene)

    def test_pruning_goes_on_by_itself_until_it_is_stopped(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            flow, name = flow_of(stage, app)
            async with app:
                await ended(flow, 3)

                async def keep() -> None:
                    async with ConnectionManager(stage.url) as manager:
                        policies = [Retention(older_than=0, name=name)]
                        rounds = PruneRounds(pruner_on(stage, manager), policies, RealWorld(), interval=0.01)
                        rounds.start()
                        async with asyncio.timeout(PATIENCE):
                            while there(stage, name):  # noqa: ASYNC110 -- rows, which nobody announces
                                await asyncio.sleep(0.01)
                        await rounds.stop()

                await apart(stage, keep)
                ids = await ended(flow, 2)
            assert there(stage, name) == set(ids)

        Stage(venue).play(scene)


class _Forgetful(ConnectionManager):
    """Loses the reply of every transaction that deletes: it is carried out, and nobody is told."""

    lost = 0

    async def run(self, work: Any, *, isolation: str | None = None) -> Any:
        result = await super().run(work, isolation=isolation)
        if isinstance(result, int):
            self.lost += 1
            raise UnknownCommit("The connection broke while the commit was under way.")
        return result
