"""Looking at runs without touching them: listing, counting, steps, executors; and taking a run to another database."""

from holdfast.workflows.looking.filters import Filters
from holdfast.workflows.looking.looking import Looking, WorkflowCount
from holdfast.workflows.looking.page import Page
from holdfast.workflows.looking.transfer import Transfer
from holdfast.workflows.queries import looking_queries

__all__ = ["Filters", "Looking", "Page", "Transfer", "WorkflowCount", "looking_queries"]
