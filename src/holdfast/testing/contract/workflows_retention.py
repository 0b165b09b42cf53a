"""The contract of retention: what a prune deletes, what it never touches, and that nothing is held up or lost by it.

A pruner has no colour: it works on a manager of its own, as in another process. The runs it meets are of either colour.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.db import ConnectionManager
from holdfast.db.migrations import SCHEMA
from holdfast.errors import UnknownCommit
from holdfast.model.world import RealWorld
from holdfast.testing.colours import Colour
from holdfast.testing.contract.workflows_stage import PATIENCE, Stage
from holdfast.workflows.retention import Keeper, Pruner, PruneReport, Retention, retention_queries

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from holdfast.testing.contract.venue import Venue
    from holdfast.testing.contract.workflows_stage import App, Flow

_HOUR = 3600.0


async def increment(number: int) -> int:
    return number + 1


async def apart(stage: Stage, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Run *work* on a loop: this one in the async colour, one of its own in the sync colour."""
    return await work() if stage.colour is Colour.ASYNC else asyncio.run(work())


def pruner_on(stage: Stage, manager: ConnectionManager, **options: Any) -> Pruner:
    """Return a pruner that sees the clock of the stage."""
    queries = retention_queries(manager.dialect, SCHEMA, clock_offset_ms=stage.settings.get("clock_offset_ms"))
    return Pruner(manager, queries, RealWorld(), **{"pause": 0, **options})


async def prune(stage: Stage, *policies: Retention, batch: int = 200, **options: Any) -> PruneReport:
    """Prune once, from another connection."""

    async def work() -> PruneReport:
        async with ConnectionManager(stage.url) as manager:
            return await pruner_on(stage, manager, batch=batch).prune(policies, **options)

    report: PruneReport = await apart(stage, work)
    return report


def counts(report: PruneReport) -> list[tuple[int, int]]:
    """Return what each policy matched and deleted."""
    return [(each.matched, each.deleted) for each in report.policies]


def flow_of(stage: Stage, app: App, name: str = "flow") -> tuple[Flow, str]:
    """Register a workflow of two steps under a name that no other test has; return it and the name."""
    step = app.step(increment, name=f"{stage.version}-{name}-step")

    async def two(number: int) -> int:
        found: int = await step(await step(number))
        return found

    unique = f"{stage.version}-{name}"
    return app.workflow(two, name=unique), unique


def there(stage: Stage, name: str) -> set[str]:
    """Return the ids of the runs of a workflow."""
    rows = stage.rows(f"SELECT workflow_uuid FROM {stage.table('workflow_status')} WHERE name = ?", name)
    return {row["workflow_uuid"] for row in rows}


def set_run(stage: Stage, workflow_id: str, **columns: Any) -> None:
    """Change the row of a run behind the library's back."""
    names = ", ".join(f"{each} = ?" for each in columns)
    done = stage.execute(
        f"UPDATE {stage.table('workflow_status')} SET {names} WHERE workflow_uuid = ?", *columns.values(), workflow_id
    )
    assert done == 1


async def ended(flow: Flow, count: int) -> list[str]:
    """Run a workflow so many times; return the ids, oldest first."""
    handles = [await flow.start(number) for number in range(count)]
    assert [await each.result() for each in handles] == [number + 2 for number in range(count)]
    return [each.workflow_id for each in handles]


def created_apart(stage: Stage, ids: list[str]) -> None:
    """Let the runs have been created one second after the other."""
    first = stage.run(ids[0])["created_at"] - 1000 * len(ids)
    for number, each in enumerate(ids):
        set_run(stage, each, created_at=first + 1000 * number)


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


class RetentionContract:
    """What a prune deletes, and what it leaves alone."""

    def test_old_runs_are_deleted_with_their_records_and_young_ones_stay(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            stage.set_clock(0)
            app = stage.app()
            flow, name = flow_of(stage, app)
            async with app:
                old = await ended(flow, 3)
                stage.set_clock(2 * _HOUR)
                young = await ended(flow, 2)
                report = await prune(stage, Retention(older_than=_HOUR, name=name))
            assert counts(report) == [(3, 3)]
            assert there(stage, name) == set(young)
            assert [stage.steps(each) for each in old] == [[], [], []]
            assert [len(stage.steps(each)) for each in young] == [2, 2]

        Stage(venue).play(scene)

    def test_age_counts_from_the_end_by_the_clock_of_the_database(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            stage.set_clock(0)
            app, gate = stage.app(), stage.gate()

            async def slow() -> str:
                await gate()
                return "late"

            name = f"{stage.version}-slow"
            flow = app.workflow(slow, name=name)
            policy = Retention(older_than=_HOUR, name=name)
            async with app:
                handle = await flow.start()
                await gate.reached()
                stage.set_clock(2 * _HOUR)
                gate.open()
                assert await handle.result() == "late"
                assert counts(await prune(stage, policy)) == [(0, 0)]
                stage.set_clock(4 * _HOUR)
                assert counts(await prune(stage, policy)) == [(1, 1)]

        Stage(venue).play(scene)

    def test_newest_runs_are_kept_by_number_also_within_one_millisecond(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            flow, name = flow_of(stage, app)
            async with app:
                ids = await ended(flow, 6)
            created_apart(stage, ids)
            assert counts(await prune(stage, Retention(keep_last=4, older_than=0, name=name))) == [(2, 2)]
            assert there(stage, name) == set(ids[2:])
            for each in ids[2:]:
                set_run(stage, each, created_at=1)
            assert counts(await prune(stage, Retention(keep_last=9, older_than=0, name=name))) == [(0, 0)]
            assert counts(await prune(stage, Retention(keep_last=1, older_than=0, name=name))) == [(3, 3)]
            assert there(stage, name) == {max(ids[2:])}

        Stage(venue).play(scene)

    def test_number_counts_only_what_fits_and_the_age_must_fit_too(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            (one, first), (two, second) = flow_of(stage, app, "one"), flow_of(stage, app, "two")
            async with app:
                ids, others = await ended(one, 4), await ended(two, 4)
            created_apart(stage, ids)
            set_run(stage, ids[0], status="ERROR")
            policy = Retention(keep_last=1, older_than=_HOUR, status="SUCCESS", name=first)
            assert counts(await prune(stage, policy)) == [(0, 0)]
            set_run(stage, ids[1], created_at=1, completed_at=2)
            assert counts(await prune(stage, policy)) == [(1, 1)]
            assert there(stage, first) == {ids[0], ids[2], ids[3]}
            assert counts(await prune(stage, Retention(keep_last=3, older_than=0, name=[first, second]))) == [(4, 4)]
            assert len(there(stage, first) | there(stage, second)) == 3
            assert there(stage, second) <= set(others)

        Stage(venue).play(scene)

    def test_number_alone_leaves_runs_alone_that_have_just_ended(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            stage.set_clock(0)
            app = stage.app()
            flow, name = flow_of(stage, app)
            async with app:
                ids = await ended(flow, 2)
            created_apart(stage, ids)
            assert counts(await prune(stage, Retention(keep_last=1, name=name))) == [(0, 0)]
            stage.set_clock(90)
            assert counts(await prune(stage, Retention(keep_last=1, name=name))) == [(1, 1)]

        Stage(venue).play(scene)

    def test_only_the_statuses_of_the_policy_are_deleted(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            flow, name = flow_of(stage, app)
            statuses = ["SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"]
            async with app:
                ids = await ended(flow, 7)
            for each, status in zip(ids, [*statuses, "PENDING", "ENQUEUED", "DELAYED"], strict=True):
                set_run(stage, each, status=status, completed_at=None)  # given up just now: not a word about when yet
            policies = [Retention(older_than=0, status=["ERROR", "CANCELLED"], name=name)]
            assert counts(await prune(stage, *policies)) == [(2, 2)]
            assert there(stage, name) == {ids[0], *ids[3:]}
            assert counts(await prune(stage, Retention(older_than=0, name=name))) == [(2, 2)]
            assert there(stage, name) == set(ids[4:])
            for each in ids[4:]:
                set_run(stage, each, status="SUCCESS")

        Stage(venue).play(scene)

    def test_dry_run_deletes_nothing_and_counts_what_a_real_one_deletes(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            (one, first), (two, second) = flow_of(stage, app, "one"), flow_of(stage, app, "two")
            async with app:
                ids, others = await ended(one, 7), await ended(two, 5)
            created_apart(stage, ids)
            set_run(stage, ids[0], status="ERROR")
            policies = [
                Retention(older_than=0, status="ERROR", name=[first, second]),
                Retention(older_than=0, keep_last=4, name=first),
                Retention(older_than=0, name=second),
                Retention(older_than=0, name=[first, second], keep_last=1),
                Retention(older_than=0, name=f"{first}-other"),
            ]
            seen: list[int] = []
            dry = await prune(stage, *policies, dry_run=True, progress=seen.append, batch=2)
            assert there(stage, first) | there(stage, second) == {*ids, *others}
            real = await prune(stage, *policies, batch=2)
            assert dry.dry_run
            assert not real.dry_run
            assert dry.deleted == 0
            assert [each.matched for each in dry.policies] == [each.matched for each in real.policies]
            assert real.matched == real.deleted == seen[-1]
            assert seen == sorted(seen)
            assert counts(real)[:3] == [(1, 1), (2, 2), (5, 5)]
            assert there(stage, second) == set()

        Stage(venue).play(scene)

    def test_running_runs_and_the_ended_children_of_a_running_parent_stay(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, gate = stage.app(), stage.gate()
            child, of_child = flow_of(stage, app, "child")

            async def parent() -> list[int]:
                handles = [await child.start(number) for number in range(3)]
                first = await handles[0].result()
                await gate()
                return [first, *[await each.result() for each in handles[1:]]]

            of_parent = f"{stage.version}-parent"
            flow = app.workflow(parent, name=of_parent)
            policy = Retention(older_than=0, name=[of_child, of_parent])
            async with app:
                handle = await flow.start()
                await gate.reached()
                await stage.until(
                    lambda: all(stage.run(each)["status"] == "SUCCESS" for each in there(stage, of_child))
                )
                assert counts(await prune(stage, policy)) == [(0, 0)]
                gate.open()
                assert await handle.result() == [2, 3, 4]
            assert counts(await prune(stage, policy)) == [(4, 4)]
            assert there(stage, of_child) | there(stage, of_parent) == set()

        Stage(venue).play(scene)

    @pytest.mark.parametrize("change", ["resumed", "ended again", "parent resumed", "deleted"])
    def test_run_that_changes_at_the_same_moment_is_kept_whole(self, venue: Venue, change: str) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            flow, name = flow_of(stage, app)
            other, _ = flow_of(stage, app, "parent")
            async with app:
                ids = await ended(flow, 2)
                [parent] = await ended(other, 1)
            created_apart(stage, ids)
            set_run(stage, ids[1], parent_workflow_id=parent)

            def meanwhile(_: int) -> None:
                """Both runs were seen, and the first is deleted."""
                if change == "resumed":
                    set_run(stage, ids[1], status="ENQUEUED")
                elif change == "ended again":
                    set_run(stage, ids[1], completed_at=stage.run(ids[1])["completed_at"] + 3_600_000)
                elif change == "parent resumed":
                    set_run(stage, parent, status="PENDING")
                else:
                    stage.execute(f"DELETE FROM {stage.table('workflow_status')} WHERE workflow_uuid = ?", ids[1])

            once: list[Callable[[int], None]] = [meanwhile]
            report = await prune(
                stage, Retention(older_than=0, name=name), batch=1, progress=lambda n: once.pop()(n) if once else None
            )
            assert counts(report) == [(2, 1)]
            left = set() if change == "deleted" else {ids[1]}
            assert there(stage, name) == left
            assert [len(stage.steps(each)) for each in left] == [2] * len(left)
            for each in left | {parent}:
                set_run(stage, each, status="SUCCESS")

        Stage(venue).play(scene)


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

    def test_keeper_deletes_by_itself_until_it_is_stopped(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            flow, name = flow_of(stage, app)
            async with app:
                await ended(flow, 3)

                async def keep() -> None:
                    async with ConnectionManager(stage.url) as manager:
                        policies = [Retention(older_than=0, name=name)]
                        keeper = Keeper(pruner_on(stage, manager), policies, RealWorld(), interval=0.01)
                        keeper.start()
                        async with asyncio.timeout(PATIENCE):
                            while there(stage, name):  # noqa: ASYNC110 -- rows, which nobody announces
                                await asyncio.sleep(0.01)
                        await keeper.stop()

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
