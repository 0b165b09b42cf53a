"""What a policy means, and when the rounds prune; no database."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import ConfigurationError, Unavailable
from holdfast.model.workflow import WorkflowStatus
from holdfast.testing.world import VirtualWorld
from holdfast.workflows.retention import Pruned, PruneReport, PruneRounds, Retention
from holdfast.workflows.retention.plan import BEFORE_ALL, Plan, cutoff_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

_ENDED = {"SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"}


class TestPolicy:
    def test_policy_without_age_and_number_is_refused(self) -> None:
        with pytest.raises(ConfigurationError, match="older_than and keep_last"):
            Retention(status="ERROR", name="report")

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ({"older_than": -1}, "from 0 s to a hundred years"),
            ({"older_than": timedelta(days=-1)}, "from 0 s to a hundred years"),
            ({"keep_last": 0}, "older_than=0"),
            ({"keep_last": -3}, "at least 1"),
            ({"keep_last": "5"}, "at least 1"),
            ({"older_than": 1, "status": []}, "leave it out"),
            ({"older_than": 1, "name": []}, "leave it out"),
            ({"older_than": 1, "status": "success"}, "SUCCESS, ERROR"),
            ({"older_than": 1, "status": ["ERROR", "GONE"]}, "GONE"),
        ],
    )
    def test_policy_that_cannot_be_meant_is_refused_with_the_remedy(self, given: dict[str, Any], said: str) -> None:
        with pytest.raises(ConfigurationError, match=said):
            Retention(**given)

    @pytest.mark.parametrize("status", [each for each in WorkflowStatus if not each.has_ended])
    def test_status_of_a_run_that_has_not_ended_is_refused(self, status: WorkflowStatus) -> None:
        for given in (status, status.value, [status], ("SUCCESS", status)):
            with pytest.raises(ConfigurationError, match=f"{status.value}.*only runs that are SUCCESS"):
                Retention(older_than=1, status=given)

    def test_status_and_name_are_one_several_or_all(self) -> None:
        policy = Retention(older_than=1)
        assert (set(policy.statuses), policy.names) == (_ENDED, None)
        policy = Retention(older_than=1, status="ERROR", name="report")
        assert (policy.statuses, policy.names) == ((WorkflowStatus.ERROR,), ("report",))
        policy = Retention(older_than=1, status=["ERROR", WorkflowStatus.CANCELLED], name=["report", "mail"])
        assert (policy.statuses, policy.names) == (("ERROR", "CANCELLED"), ("report", "mail"))

    def test_age_is_seconds_or_a_timedelta_and_a_minute_where_only_the_number_is_said(self) -> None:
        now = 10_000_000
        assert cutoff_ms(Retention(older_than=1.5), now) == now - 1500
        assert cutoff_ms(Retention(older_than=timedelta(hours=1)), now) == now - 3_600_000
        assert cutoff_ms(Retention(older_than=0, keep_last=1), now) == now
        assert cutoff_ms(Retention(keep_last=1), now) == now - 60_000


def _row(**changed: Any) -> dict[str, Any]:
    row = {"workflow_uuid": "m", "status": "SUCCESS", "name": "a", "created_at": 50, "ended_at": 60, "needed": 0}
    return row | changed


class TestPlan:
    @pytest.mark.parametrize(
        "changed",
        [{"status": "ERROR"}, {"name": "b"}, {"ended_at": 101}, {"needed": 1}, {"status": "PENDING"}],
    )
    def test_plan_takes_only_what_fits_in_everything(self, changed: dict[str, Any]) -> None:
        plan = Plan(Retention(older_than=1, status="SUCCESS", name="a"), 100)
        assert plan.takes(_row())
        assert plan.takes(_row(ended_at=100))
        assert not plan.takes(_row(**changed))

    def test_plan_keeps_the_boundary_and_what_comes_after_it(self) -> None:
        plan = Plan(Retention(older_than=1, keep_last=1), 100, (50, "m"))
        assert [plan.takes(_row(workflow_uuid=each)) for each in "lmn"] == [True, False, False]
        assert [plan.takes(_row(created_at=each)) for each in (49, 51)] == [True, False]

    def test_plan_need_not_look_further_than_its_age_or_its_boundary(self) -> None:
        policy = Retention(older_than=1, keep_last=1)
        assert Plan(policy, 100).until_ms == 100
        assert Plan(policy, 100, (70, "m")).until_ms == 70
        assert Plan(policy, 100, (700, "m")).until_ms == 100
        assert Plan(policy, 100, BEFORE_ALL).until_ms < 0


class _Prunes:
    """Stands where a pruner stands: notes when it is called, and does as it is told."""

    def __init__(self, world: VirtualWorld, *, takes: float = 0.0, errors: Sequence[Exception | None] = ()) -> None:
        self.at: list[float] = []
        self._world = world
        self._takes = takes
        self._errors = list(errors)

    async def prune(self, policies: Sequence[Retention]) -> PruneReport:
        self.at.append(self._world.monotonic())
        await self._world.sleep(self._takes)
        if self._errors and (error := self._errors.pop(0)):
            raise error
        return PruneReport(tuple(Pruned(each, 7, 7) for each in policies), dry_run=False)


def _rounds(pruner: Any, world: VirtualWorld, *policies: Retention) -> PruneRounds:
    return PruneRounds(pruner, policies, world, interval=timedelta(seconds=100))


class TestPruneRounds:
    def test_rounds_prune_once_an_interval_and_not_at_the_start(self) -> None:
        async def scene() -> list[float]:
            world = VirtualWorld()
            pruner = _Prunes(world)
            rounds = _rounds(pruner, world, Retention(older_than=1))
            rounds.start()
            rounds.start()
            await world.advance(1000)
            await rounds.stop()
            await world.advance(1000)
            return pruner.at

        at = asyncio.run(scene())
        waits = [later - earlier for earlier, later in zip([0.0, *at], at, strict=False)]
        assert 9 <= len(at) <= 11
        assert all(90 <= each <= 110 for each in waits)
        assert len(set(waits)) > 1

    def test_rounds_without_policies_do_nothing(self) -> None:
        async def scene() -> tuple[list[float], int]:
            world = VirtualWorld()
            pruner = _Prunes(world)
            rounds = _rounds(pruner, world)
            rounds.start()
            await world.advance(1000)
            await rounds.stop()
            return pruner.at, world.sleepers

        assert asyncio.run(scene()) == ([], 0)

    def test_prune_that_takes_long_is_followed_by_a_longer_rest(self) -> None:
        async def scene() -> list[float]:
            world = VirtualWorld()
            pruner = _Prunes(world, takes=50)
            rounds = _rounds(pruner, world, Retention(older_than=1))
            rounds.start()
            await world.advance(800)
            await rounds.stop()
            return pruner.at

        first, second = asyncio.run(scene())
        assert 450 <= second - (first + 50) <= 550

    def test_rounds_go_on_after_errors_and_log_what_they_do(self, caplog: pytest.LogCaptureFixture) -> None:
        async def scene() -> int:
            world = VirtualWorld()
            pruner = _Prunes(world, errors=[Unavailable("away"), ZeroDivisionError("a bug"), None])
            rounds = _rounds(pruner, world, Retention(older_than=1, name="report"))
            rounds.start()
            await world.advance(350)
            await rounds.stop()
            return len(pruner.at)

        caplog.set_level(logging.INFO, "holdfast.retention")
        assert asyncio.run(scene()) == 3
        assert [record.levelname for record in caplog.records] == ["WARNING", "ERROR", "INFO"]
        assert "away" in caplog.messages[0]
        assert "a bug" in caplog.text
        assert "7" in caplog.messages[2]
        assert "report" in caplog.messages[2]

    def test_rounds_stop_in_the_middle_of_a_prune_and_start_again(self) -> None:
        async def scene() -> int:
            world = VirtualWorld()
            pruner = _Prunes(world, takes=10_000)
            rounds = _rounds(pruner, world, Retention(older_than=1))
            for _ in range(2):
                rounds.start()
                await world.advance(200)
                await rounds.stop()
            await rounds.stop()
            return len(pruner.at)

        assert asyncio.run(scene()) == 2
