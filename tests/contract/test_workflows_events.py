"""Events of runs, held to their contract on every database and in both colours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.testing.contract.workflows_events import EventsContract

if TYPE_CHECKING:
    from holdfast.testing.contract import Venue


@pytest.fixture
def venue(shared_venue: Venue) -> Venue:
    """A database that several executors share: what one has begun another can end."""
    return shared_venue


class TestEvents(EventsContract):
    """One suite, every shared column of the table in ``conftest``."""
