"""Messages to runs, held to their contract on every database and in both colours."""

from holdfast.testing.contract.workflows_messages import MessagesContract
from holdfast.testing.contract.workflows_messages_control import GoingBackContract
from holdfast.testing.contract.workflows_messages_sending import SendingContract
from holdfast.testing.contract.workflows_messages_waiting import WaitingContract


class TestMessages(MessagesContract, SendingContract, WaitingContract, GoingBackContract):
    """One suite, every shared column of the table in ``conftest``."""
