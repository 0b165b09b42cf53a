"""See to what ``pip`` cannot bring: the means to make a virtual environment, and the three database servers.

``provision.py venv FOLDER`` makes the environment; it is run by the system's Python. ``provision.py servers``
looks for PostgreSQL, MariaDB and Redis, and for the library that gives a process a wrong clock; it is run by the
environment's Python, where ``holdfast`` is installed. What is missing is installed with apt when this user may do
that; otherwise one message says what to do. The services that the packages bring are not started.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys

_OLDEST_PYTHON = (3, 11)

# policy-rc.d is what Debian's packages ask before they start a service; 101 means no.
_INSTALL = """
export DEBIAN_FRONTEND=noninteractive
if [ ! -e /usr/sbin/policy-rc.d ]; then
    trap 'rm -f /usr/sbin/policy-rc.d' EXIT
    printf '#!/bin/sh\\nexit 101\\n' > /usr/sbin/policy-rc.d && chmod 755 /usr/sbin/policy-rc.d
fi
apt-get -q update || echo 'The package lists could not be refreshed; trying with those that are there.'
apt-get -q install -y --no-install-recommends "$@"
"""


def may_install() -> list[str] | None:
    """Return the words to put before a command that installs packages, or None if this user may not."""
    if shutil.which("apt-get") is None:
        return None
    if os.geteuid() == 0:
        return []
    if (
        shutil.which("sudo")
        and subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode == 0
    ):
        return ["sudo", "-n"]
    return None


def install(packages: list[str]) -> bool:
    """Install *packages* if this user may; say whether they are there now."""
    prefix = may_install()
    if prefix is None:
        return False
    print(f"Installing {' '.join(packages)} with apt; their services are not started.", flush=True)
    return subprocess.run([*prefix, "sh", "-c", _INSTALL, "sh", *packages], check=False).returncode == 0


def make_venv(folder: str) -> int:
    """Make a virtual environment with pip in *folder*."""
    if sys.version_info < _OLDEST_PYTHON:
        return _refuse(f"Python 3.11 or newer is needed; {sys.executable} is older. Try: make PYTHON=python3.12")
    # Debian keeps ensurepip, without which an environment has no pip, in a package of its own.
    if importlib.util.find_spec("ensurepip") is None:
        package = f"python3.{sys.version_info.minor}-venv"
        if not install([package]):
            return _refuse(f"This Python cannot make virtual environments. As root: apt-get install {package}")
    return subprocess.run([sys.executable, "-m", "venv", folder], check=False).returncode


def see_to_clocks() -> None:
    """Install what gives a process a wrong clock; without it the tests that need it say so, each for itself."""
    from holdfast.testing.clocks import PACKAGE, library  # noqa: PLC0415 -- make_venv runs before it is installed

    if library() is None:
        install([PACKAGE])


def see_to_servers() -> int:
    """Install the servers that are neither here nor named by a variable."""
    missing = missing_servers()
    if not missing or install(list(missing.values())):
        return 0
    # The tests make do with the PostgreSQL of the wheel where the distribution's is not to be had.
    from holdfast.testing.servers import KINDS, VARIABLES  # noqa: PLC0415 -- make_venv runs before it is installed

    lacking = {kind: package for kind, package in missing.items() if not KINDS[kind].installed()}
    if not lacking:
        return 0
    return _refuse(
        f"The tests need servers that are not on this machine and could not be installed.\n"
        f"As root: apt-get install --no-install-recommends {' '.join(lacking.values())}\n"
        f"or name running ones in: {', '.join(VARIABLES[kind] for kind in lacking)}"
    )


def missing_servers() -> dict[str, str]:
    """Return kind and Debian package of each server that is neither installed as a package nor named."""
    from holdfast.testing.servers import KINDS, VARIABLES, packaged_postgres  # noqa: PLC0415 -- as above

    there = {kind: server.installed() for kind, server in KINDS.items()}
    there["postgres"] = packaged_postgres() is not None
    return {
        kind: KINDS[kind].package
        for kind, is_there in there.items()
        if not is_there and not os.environ.get(VARIABLES[kind])
    }


def _refuse(message: str) -> int:
    print(message, file=sys.stderr)
    return 1


def main() -> int:
    """Do what the command line asks."""
    parser = argparse.ArgumentParser(description="See to what pip cannot bring.")
    tasks = parser.add_subparsers(dest="task", required=True)
    tasks.add_parser("venv", help="make a virtual environment").add_argument("folder")
    tasks.add_parser("servers", help="see to PostgreSQL, MariaDB and Redis")
    options = parser.parse_args()
    if options.task == "venv":
        return make_venv(options.folder)
    see_to_clocks()
    return see_to_servers()


if __name__ == "__main__":
    sys.exit(main())
