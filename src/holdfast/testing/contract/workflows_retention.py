"""The contract of retention: what a prune deletes, and what it never touches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.testing.contract.workflows_retention_stage import (
    counts,
    created_apart,
    ended,
    flow_of,
    prune,
    set_run,
    there,
)
from holdfast.testing.contract.workflows_stage import Stage
from holdfast.workflows.retention import Retention

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.testing.contract.venue import Venue

_HOUR = 3600.0


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

    def test_children_stay_while_a_fork_of_their_parent_may_ask_for_them(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, queue = stage.app(), f"queue-{stage.version}"
            child, of_child = flow_of(stage, app, "child")

            async def parent() -> int:
                handle = await child.start(1)
                await child(2)
                found: int = await handle.result()
                return found

            of_parent = f"{stage.version}-parent"
            flow = app.workflow(parent, name=of_parent)
            policy = Retention(older_than=0, name=[of_child, of_parent])
            async with app:
                handle = await flow.start()
                assert await handle.result() == 3
                fork = await app.do("fork_workflow", handle.workflow_id, 2, queue_name=queue)
                assert counts(await prune(stage, policy, dry_run=True)) == [(2, 0)]
                assert counts(await prune(stage, policy)) == [(2, 2)]  # the parent, and the child above the cut
                await app.do("register_queue", queue)
                assert await app.retrieve(fork.workflow_id).result() == 3
            assert counts(await prune(stage, policy)) == [(3, 3)]

        Stage(venue).play(scene)

    @pytest.mark.parametrize("change", ["resumed", "ended again", "parent resumed", "child of another", "deleted"])
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
                elif change == "child of another":
                    steps = stage.table("operation_outputs")
                    stage.execute(f"UPDATE {steps} SET child_workflow_id = ? WHERE workflow_uuid = ?", ids[1], parent)
                    set_run(stage, ids[1], parent_workflow_id=None)
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
