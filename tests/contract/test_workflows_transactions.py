"""Transactions, held to their contract on every database and in both colours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.testing.contract.workflows_transactions import TransactionContract
from holdfast.testing.contract.workflows_transactions_called import TransactionCalledContract
from holdfast.testing.contract.workflows_transactions_elsewhere import ElsewhereContract
from holdfast.testing.contract.workflows_transactions_refusals import TransactionRefusalsContract
from holdfast.testing.contract.workflows_transactions_sessions import SessionContract

if TYPE_CHECKING:
    from holdfast.testing.contract import Venue


@pytest.fixture
def venue(shared_venue: Venue) -> Venue:
    """A database that several executors share."""
    return shared_venue


class TestTransactions(TransactionContract, TransactionCalledContract, TransactionRefusalsContract):
    """One suite, every shared column of the table in ``conftest``."""


class TestTransactionsElsewhere(ElsewhereContract):
    """The data in every shared column, the runs in a file."""


class TestSessions(SessionContract):
    """Engines of SQLAlchemy over every shared column."""
