"""The package as it is seen from outside: its version, its names, and ``python -m``."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import holdfast


def test_version_is_that_of_the_installed_package() -> None:
    assert holdfast.__version__ == version("holdfast")


def test_names_are_all_listed_and_there() -> None:
    assert {*holdfast.__all__, "__version__"} <= set(dir(holdfast))
    assert all(getattr(holdfast, name) is not None for name in dir(holdfast))


def test_package_run_as_a_module_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "--version"], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.stdout, done.returncode) == (f"holdfast {version('holdfast')}\n", 0)
