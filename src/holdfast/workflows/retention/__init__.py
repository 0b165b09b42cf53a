"""Deleting runs that nobody needs any more, a few at a time, so that the tables stay small.

A ``Retention`` says which ended runs may go. The ``Pruner`` deletes them; ``PruneRounds`` have it do so again and
again while an application runs.
"""

from holdfast.workflows.queries import retention_queries
from holdfast.workflows.retention.policy import Retention
from holdfast.workflows.retention.pruner import Pruner
from holdfast.workflows.retention.report import Pruned, PruneReport
from holdfast.workflows.retention.rounds import RETENTION_INTERVAL, PruneRounds

__all__ = ["RETENTION_INTERVAL", "PruneReport", "PruneRounds", "Pruned", "Pruner", "Retention", "retention_queries"]
