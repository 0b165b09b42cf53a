"""The database door, held to its contract on every backend and in both colours."""

from holdfast.testing.contract import ConnectionContract


class TestConnection(ConnectionContract):
    """One suite, every column of the table in ``conftest``."""
