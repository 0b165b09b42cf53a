"""Transactions, held to their contract on every database and in both colours."""

from holdfast.testing.contract.workflows_transactions import TransactionContract
from holdfast.testing.contract.workflows_transactions_called import TransactionCalledContract
from holdfast.testing.contract.workflows_transactions_elsewhere import ElsewhereContract
from holdfast.testing.contract.workflows_transactions_refusals import TransactionRefusalsContract
from holdfast.testing.contract.workflows_transactions_sessions import SessionContract


class TestTransactions(TransactionContract, TransactionCalledContract, TransactionRefusalsContract):
    """One suite, every shared column of the table in ``conftest``."""


class TestTransactionsElsewhere(ElsewhereContract):
    """The data in every shared column, the runs in a file."""


class TestSessions(SessionContract):
    """Engines of SQLAlchemy over every shared column."""
