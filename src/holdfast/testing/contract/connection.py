"""The contract of the database door: ``ConnectionManager`` and its sync form."""

from holdfast.testing.contract.life import LifeContract
from holdfast.testing.contract.statements import StatementContract
from holdfast.testing.contract.transactions import TransactionContract


class ConnectionContract(StatementContract, TransactionContract, LifeContract):
    """Everything a connection manager promises: statements and values, transactions, its life."""
