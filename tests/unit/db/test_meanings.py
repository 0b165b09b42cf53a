"""What errors of the servers mean to us, in words that say what to do."""

from __future__ import annotations

import pytest

from holdfast.db.mysql import mysql
from holdfast.db.postgres import postgres
from holdfast.errors import BrokenOff, Retryable


class Told(Exception):
    """An error of a driver."""

    sqlstate = "25006"


class TimeIsOver(Told):
    """A statement that PostgreSQL has cancelled."""

    sqlstate = "57014"


class NoMemory(Told):
    """A statement for which PostgreSQL has no memory now."""

    sqlstate = "53200"


@pytest.mark.parametrize(
    "meant",
    [
        postgres.meaning(Told("cannot execute UPDATE in a read-only transaction"), "UPDATE t SET a = 1"),
        mysql.meaning(Told(1290, "The server is running with the --read-only option"), "UPDATE t SET a = 1"),
        mysql.meaning(Told(1836, "Running in read-only mode"), "UPDATE t SET a = 1"),
        mysql.meaning(Told(1792, "Cannot execute statement in a READ ONLY transaction"), "UPDATE t SET a = 1"),
    ],
)
def test_server_that_takes_no_writes_is_called_so(meant: Exception) -> None:
    assert isinstance(meant, Retryable)
    assert "takes no writes here" in str(meant)
    assert "UPDATE t" in str(meant)


@pytest.mark.parametrize(
    "meant",
    [
        postgres.meaning(TimeIsOver("canceling statement due to statement timeout"), "UPDATE t SET a = 1"),
        postgres.meaning(NoMemory("out of shared memory"), "UPDATE t SET a = 1"),
        mysql.meaning(Told(1969, "Query execution was interrupted (max_statement_time exceeded)"), "UPDATE t"),
        mysql.meaning(Told(1317, "Query execution was interrupted"), "UPDATE t SET a = 1"),
        mysql.meaning(Told(1206, "The total number of locks exceeds the lock table size"), "UPDATE t SET a = 1"),
    ],
)
def test_statement_that_a_server_breaks_off_may_be_tried_again(meant: Exception) -> None:
    assert isinstance(meant, BrokenOff)
    assert isinstance(meant, Retryable)
    assert "broke the statement off" in str(meant)
    assert "UPDATE t" in str(meant)
