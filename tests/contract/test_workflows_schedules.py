"""Schedules, held to their contract on every database and in both colours."""

from holdfast.testing.contract.workflows_schedules import ScheduleCallsContract
from holdfast.testing.contract.workflows_schedules_firing import ScheduleFiringContract
from holdfast.testing.contract.workflows_schedules_versions import ScheduleVersionsContract


class TestSchedules(ScheduleCallsContract, ScheduleFiringContract, ScheduleVersionsContract):
    """One suite, every shared column of the table in ``conftest``."""
