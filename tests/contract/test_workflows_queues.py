"""Queues, held to their contract on every database and in both colours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.testing.contract.workflows_queue_limits import PartitionsContract, QueueLimitsContract
from holdfast.testing.contract.workflows_queue_order import QueueOrderContract
from holdfast.testing.contract.workflows_queue_rides import QueueRidesContract
from holdfast.testing.contract.workflows_queue_settings import QueueSettingsContract

if TYPE_CHECKING:
    from holdfast.testing.contract import Venue


@pytest.fixture
def venue(shared_venue: Venue) -> Venue:
    """A database that several executors share: limits hold for all of them together."""
    return shared_venue


class TestQueues(
    QueueSettingsContract, QueueOrderContract, QueueRidesContract, QueueLimitsContract, PartitionsContract
):
    """One suite, every shared column of the table in ``conftest``."""
