"""Durable workflows and reliability state in the database you already run."""

from holdfast.app import AsyncHoldfast, Holdfast
from holdfast.client import AsyncClient, Client
from holdfast.errors import HoldfastError
from holdfast.model.queue import Queue
from holdfast.model.workflow import Changes, Retry, StepState, WorkflowState, WorkflowStatus
from holdfast.workflows.handles import AsyncHandle, Handle
from holdfast.workflows.retention import Retention
from holdfast.workflows.transactions import AsyncTransaction, Transaction

__all__ = [
    "AsyncClient",
    "AsyncHandle",
    "AsyncHoldfast",
    "AsyncTransaction",
    "Changes",
    "Client",
    "Handle",
    "Holdfast",
    "HoldfastError",
    "Queue",
    "Retention",
    "Retry",
    "StepState",
    "Transaction",
    "WorkflowState",
    "WorkflowStatus",
]
