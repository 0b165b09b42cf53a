"""A backend of flow checkpoints whose driver is missing says which extra has it."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("module", "backend", "extra"),
    [
        ("redis", "RedisCheckpointBackend()", "holdfast[redis]"),
        ("asyncpg", "PostgresCheckpointBackend('postgresql://nobody@localhost/x')", "holdfast[postgres]"),
    ],
)
def test_missing_driver_is_an_import_error_that_names_the_extra(module: str, backend: str, extra: str) -> None:
    script = f"""
import sys
sys.modules["{module}"] = None
from holdfast.stores import PostgresCheckpointBackend, RedisCheckpointBackend
try:
    {backend}.load("1")
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert extra in done.stdout
