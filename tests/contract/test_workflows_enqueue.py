"""Putting runs in queues, held to its contract on every database and in both colours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.testing.contract.workflows_enqueue import QueueEntryContract
from holdfast.testing.contract.workflows_outbox import OutboxContract

if TYPE_CHECKING:
    from holdfast.testing.contract import Venue


@pytest.fixture
def venue(shared_venue: Venue) -> Venue:
    """A database that several executors share: what one has enqueued another can begin."""
    return shared_venue


class TestQueueEntry(QueueEntryContract):
    """One suite, every shared column of the table in ``conftest``."""


class TestOutbox(OutboxContract):
    """The same for transactions of the user's own."""
