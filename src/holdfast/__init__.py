"""Durable workflows and reliability state in the database you already run."""

from typing import TYPE_CHECKING, Any

from holdfast.app import AsyncHoldfast, Holdfast
from holdfast.errors import HoldfastError
from holdfast.model.queue import Queue
from holdfast.model.schedule import Schedule
from holdfast.model.workflow import Changes, Retry, StepState, WorkflowState, WorkflowStatus
from holdfast.workflows.declaring.functions import AsyncWorkflow, Workflow
from holdfast.workflows.declaring.steps import Step
from holdfast.workflows.dispatch_state import DispatchState
from holdfast.workflows.messaging import Message, NotificationInfo
from holdfast.workflows.retention import Retention
from holdfast.workflows.running.handles import AsyncHandle, Handle
from holdfast.workflows.schedules import ScheduleSpec
from holdfast.workflows.streams import AsyncStreamReader, StreamReader, StreamReset
from holdfast.workflows.transactions import AsyncTransaction, Transaction

if TYPE_CHECKING:
    from holdfast.client import AsyncClient, Client

    __version__: str

__all__ = [
    "AsyncClient",
    "AsyncHandle",
    "AsyncHoldfast",
    "AsyncStreamReader",
    "AsyncTransaction",
    "AsyncWorkflow",
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
    "Step",
    "StepState",
    "StreamReader",
    "StreamReset",
    "Transaction",
    "Workflow",
    "WorkflowState",
    "WorkflowStatus",
]


def __getattr__(name: str) -> Any:
    """Load the clients and the version when somebody asks for them: an application needs none."""
    if name in {"AsyncClient", "Client"}:
        from holdfast import client  # noqa: PLC0415 -- that is the point

        return getattr(client, name)
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 -- that is the point

        return version("holdfast")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Name the clients too, though they are not loaded."""
    return sorted({*globals(), *__all__, "__version__"})
