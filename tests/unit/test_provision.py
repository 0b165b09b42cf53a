"""The tool that sees to the servers, where it may install nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_TOOL = Path(__file__).parents[2] / "tools" / "provision.py"


def provision(**named: str) -> subprocess.CompletedProcess[str]:
    """Run it with a PATH on which it finds neither apt nor sudo nor the servers' programs."""
    return subprocess.run(
        [sys.executable, str(_TOOL), "servers"],
        env={"PATH": "/nonexistent", **named},
        capture_output=True,
        text=True,
        check=False,
    )


def test_provision_that_may_not_install_says_what_to_do() -> None:
    done = provision()
    assert done.returncode == 1
    assert "apt-get install --no-install-recommends mariadb-server redis-server\n" in done.stderr
    assert "HOLDFAST_TEST_MARIADB_URL, HOLDFAST_TEST_REDIS_URL" in done.stderr


def test_provision_wants_no_server_that_is_named() -> None:
    done = provision(HOLDFAST_TEST_MARIADB_URL="mysql://somewhere/db")
    assert "apt-get install --no-install-recommends redis-server\n" in done.stderr
    everything = provision(
        HOLDFAST_TEST_POSTGRES_URL="postgresql://somewhere/db",
        HOLDFAST_TEST_MARIADB_URL="mysql://somewhere/db",
        HOLDFAST_TEST_REDIS_URL="redis://somewhere/0",
    )
    assert (everything.returncode, everything.stdout, everything.stderr) == (0, "", "")
