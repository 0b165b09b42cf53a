"""Deleting runs that nobody needs any more, a few at a time, so that the tables stay small.

A ``Retention`` says which ended runs may go. The ``Pruner`` deletes them; the ``Keeper`` has it do so again and again
while an application runs.
"""

from holdfast.workflows.queries import retention_queries
from holdfast.workflows.retention.keeper import RETENTION_INTERVAL, Keeper
from holdfast.workflows.retention.policy import Retention
from holdfast.workflows.retention.pruner import Pruner
from holdfast.workflows.retention.report import Pruned, PruneReport

__all__ = ["RETENTION_INTERVAL", "Keeper", "PruneReport", "Pruned", "Pruner", "Retention", "retention_queries"]
