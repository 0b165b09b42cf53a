"""Durable workflows, held to their contract on every database and in both colours."""

from holdfast.testing.contract.workflows import WorkflowContract


class TestWorkflows(WorkflowContract):
    """One suite, every shared column of the table in ``conftest``."""
