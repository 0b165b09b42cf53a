"""Schedules, held to their contract on every database and in both colours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.testing.contract.workflows_schedules import ScheduleCallsContract
from holdfast.testing.contract.workflows_schedules_firing import ScheduleFiringContract
from holdfast.testing.contract.workflows_schedules_versions import ScheduleVersionsContract

if TYPE_CHECKING:
    from holdfast.testing.contract import Venue


@pytest.fixture
def venue(shared_venue: Venue) -> Venue:
    """A database that several executors share: a slot fires once for all of them together."""
    return shared_venue


class TestSchedules(ScheduleCallsContract, ScheduleFiringContract, ScheduleVersionsContract):
    """One suite, every shared column of the table in ``conftest``."""
