"""Queues, held to their contract on every database and in both colours."""

from holdfast.testing.contract.workflows_queue_limits import PartitionsContract, QueueLimitsContract
from holdfast.testing.contract.workflows_queue_order import QueueOrderContract
from holdfast.testing.contract.workflows_queue_rides import QueueRidesContract
from holdfast.testing.contract.workflows_queue_settings import QueueSettingsContract


class TestQueues(
    QueueSettingsContract, QueueOrderContract, QueueRidesContract, QueueLimitsContract, PartitionsContract
):
    """One suite, every shared column of the table in ``conftest``."""
