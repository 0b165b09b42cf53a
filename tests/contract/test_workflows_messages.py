"""Messages to runs, held to their contract on every database and in both colours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.testing.contract.workflows_messages import MessagesContract
from holdfast.testing.contract.workflows_messages_control import GoingBackContract
from holdfast.testing.contract.workflows_messages_sending import SendingContract
from holdfast.testing.contract.workflows_messages_waiting import WaitingContract

if TYPE_CHECKING:
    from holdfast.testing.contract import Venue


@pytest.fixture
def venue(shared_venue: Venue) -> Venue:
    """A database that several executors share: what one has begun another can end."""
    return shared_venue


class TestMessages(MessagesContract, SendingContract, WaitingContract, GoingBackContract):
    """One suite, every shared column of the table in ``conftest``."""
