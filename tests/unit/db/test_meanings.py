"""What errors of the servers mean to us, in words that say what to do."""

from __future__ import annotations

import pytest

from holdfast.db import mysql, postgres
from holdfast.errors import Retryable


class Told(Exception):
    """An error of a driver."""

    sqlstate = "25006"


@pytest.mark.parametrize(
    "meant",
    [
        postgres.meaning(Told("cannot execute UPDATE in a read-only transaction"), "UPDATE t SET a = 1"),
        mysql.meaning(Told(1290, "The server is running with the --read-only option"), "UPDATE t SET a = 1"),
        mysql.meaning(Told(1836, "Running in read-only mode"), "UPDATE t SET a = 1"),
    ],
)
def test_server_that_takes_no_writes_is_called_so(meant: Exception) -> None:
    assert isinstance(meant, Retryable)
    assert "takes no writes here" in str(meant)
    assert "UPDATE t" in str(meant)
