"""Events of runs, held to their contract on every database and in both colours."""

from holdfast.testing.contract.workflows_events import EventsContract


class TestEvents(EventsContract):
    """One suite, every shared column of the table in ``conftest``."""
