"""Dead letters of runs and their replay, held to their contract on every database and in both colours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.testing.contract.workflows_dead_letters import DeadLettersContract
from holdfast.testing.contract.workflows_dead_letters_handlers import ReplayHandlersContract
from holdfast.testing.contract.workflows_dead_letters_replay import ReplayContract

if TYPE_CHECKING:
    from holdfast.testing.contract import Venue


@pytest.fixture
def venue(shared_venue: Venue) -> Venue:
    """A database that several executors share: what one has made another can replay."""
    return shared_venue


class TestDeadLettersOfRuns(DeadLettersContract, ReplayContract):
    """One suite, every shared column of the table in ``conftest``."""


class TestReplayHandlers(ReplayHandlersContract):
    """One suite, every shared column of the table in ``conftest``."""
