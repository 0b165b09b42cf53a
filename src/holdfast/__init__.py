"""Durable workflows and reliability state in the database you already run."""

from typing import TYPE_CHECKING, Any

from holdfast.app import AsyncHoldfast, Holdfast
from holdfast.errors import HoldfastError
from holdfast.model.queue import Queue
from holdfast.model.schedule import Schedule
from holdfast.model.workflow import Changes, Retry, StepState, WorkflowState, WorkflowStatus
from holdfast.workflows.dispatch_state import DispatchState
from holdfast.workflows.handles import AsyncHandle, Handle
from holdfast.workflows.messaging import Message, NotificationInfo
from holdfast.workflows.retention import Retention
from holdfast.workflows.schedules import ScheduleSpec
from holdfast.workflows.streams import AsyncStreamReader, StreamReader, StreamReset
from holdfast.workflows.transactions import AsyncTransaction, Transaction

if TYPE_CHECKING:
    from holdfast.client import AsyncClient, Client

__all__ = [
    "AsyncClient",
    "AsyncHandle",
    "AsyncHoldfast",
    "AsyncStreamReader",
    "AsyncTransaction",
    "Changes",
    "Client",
    "DispatchState",
    "Handle",
    "Holdfast",
    "HoldfastError",
    "Message",
    "NotificationInfo",
    "Queue",
    "Retention",
    "Retry",
    "Schedule",
    "ScheduleSpec",
    "StepState",
    "StreamReader",
    "StreamReset",
    "Transaction",
    "WorkflowState",
    "WorkflowStatus",
]


def __getattr__(name: str) -> Any:
    """Load the clients when somebody asks for them: an application needs none."""
    if name in {"AsyncClient", "Client"}:
        from holdfast import client  # noqa: PLC0415 -- that is the point

        return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
