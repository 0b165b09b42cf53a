"""What is done to runs, held to its contract on every database and in both colours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.testing.contract.workflows_control import ControlContract
from holdfast.testing.contract.workflows_going_back import GoingBackContract
from holdfast.testing.contract.workflows_managing import ManagingContract

if TYPE_CHECKING:
    from holdfast.testing.contract import Venue


@pytest.fixture
def venue(shared_venue: Venue) -> Venue:
    """A database that several executors share: what one has begun another can change."""
    return shared_venue


class TestControl(ControlContract, GoingBackContract, ManagingContract):
    """One suite, every shared column of the table in ``conftest``."""
