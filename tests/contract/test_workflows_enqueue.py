"""Putting runs in queues, held to its contract on every database and in both colours."""

from holdfast.testing.contract.workflows_enqueue import QueueEntryContract
from holdfast.testing.contract.workflows_outbox import OutboxContract


class TestQueueEntry(QueueEntryContract):
    """One suite, every shared column of the table in ``conftest``."""


class TestOutbox(OutboxContract):
    """The same for transactions of the user's own."""
