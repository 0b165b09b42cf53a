"""Dead letters of runs and their replay, held to their contract on every database and in both colours."""

from holdfast.testing.contract.workflows_dead_letters import DeadLettersContract
from holdfast.testing.contract.workflows_dead_letters_handlers import ReplayHandlersContract
from holdfast.testing.contract.workflows_dead_letters_replay import ReplayContract


class TestDeadLettersOfRuns(DeadLettersContract, ReplayContract):
    """One suite, every shared column of the table in ``conftest``."""


class TestReplayHandlers(ReplayHandlersContract):
    """One suite, every shared column of the table in ``conftest``."""
