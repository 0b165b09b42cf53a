"""Durable workflows and reliability state in the database you already run."""

from holdfast.app import AsyncHoldfast, Holdfast
from holdfast.errors import HoldfastError
from holdfast.model.workflow import Retry, WorkflowStatus
from holdfast.workflows.handles import AsyncHandle, Handle

__all__ = ["AsyncHandle", "AsyncHoldfast", "Handle", "Holdfast", "HoldfastError", "Retry", "WorkflowStatus"]
