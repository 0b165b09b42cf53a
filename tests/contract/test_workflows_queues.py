"""Queues, held to their contract on every database and in both colours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.testing.contract.workflows_queues import QueuesContract

if TYPE_CHECKING:
    from holdfast.testing.contract import Venue


@pytest.fixture
def venue(shared_venue: Venue) -> Venue:
    """A database that several executors share: limits hold for all of them together."""
    return shared_venue


class TestQueues(QueuesContract):
    """One suite, every shared column of the table in ``conftest``."""
