"""What is done to runs, held to its contract on every database and in both colours."""

from holdfast.testing.contract.workflows_control import ControlContract
from holdfast.testing.contract.workflows_going_back import GoingBackContract
from holdfast.testing.contract.workflows_managing import ManagingContract


class TestControl(ControlContract, GoingBackContract, ManagingContract):
    """One suite, every shared column of the table in ``conftest``."""
