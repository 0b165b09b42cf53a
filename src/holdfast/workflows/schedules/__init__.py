"""Schedules: their settings, the slots that are due, and the runs they become."""

from holdfast.workflows.queries import schedule_queries
from holdfast.workflows.schedules.firing import Firing
from holdfast.workflows.schedules.settings import ScheduleSpec
from holdfast.workflows.schedules.store import Schedules
from holdfast.workflows.schedules.ticker import Ticker

__all__ = ["Firing", "ScheduleSpec", "Schedules", "Ticker", "schedule_queries"]
