"""Transactions: steps whose own writes commit together with their record, exactly once.

``decorator.py`` is the face, ``functions.py`` what it makes, ``carrying.py`` how one is carried out. ``own.py``,
``elsewhere.py`` and ``alchemy.py`` are the places where its data may be.
"""

from holdfast.workflows.transactions.decorator import TransactionDecorator
from holdfast.workflows.transactions.functions import TransactionStep
from holdfast.workflows.transactions.handle import AsyncTransaction, Transaction
from holdfast.workflows.transactions.homes import Homes

__all__ = ["AsyncTransaction", "Homes", "Transaction", "TransactionDecorator", "TransactionStep"]
