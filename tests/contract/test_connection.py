"""The database door, held to its contract on every backend and in both colours."""

import pytest

from holdfast.testing.contract import ConnectionContract, Venue


@pytest.fixture
def venue(every_venue: Venue) -> Venue:
    """Also databases that nobody can share."""
    return every_venue


class TestConnection(ConnectionContract):
    """One suite, every column of the table in ``conftest``."""
