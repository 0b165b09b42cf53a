"""The pages of the stores run as written at every level: without a database, with each of them, and with a queue.

The examples are those of the documents. At Level 0 the pages are run with all others, by ``test_snippets``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[2]
RUN = ROOT / "tests" / "docs" / "test_snippets.py"
PATIENCE = 90


def run(page: str, folder: Path, variables: dict[str, str]) -> None:
    """Run a page in *folder*, with nothing in the environment that names a database but *variables*."""
    environment = {
        name: value for name, value in os.environ.items() if not name.endswith(("DATABASE_URL", "QUEUE_URL"))
    }
    done = subprocess.run(
        [sys.executable, "-W", "error", str(RUN), str(ROOT / "docs" / "reference" / f"{page}.md")],
        cwd=folder,
        env=environment | variables,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, f"{page} does not run with {variables}:\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize(
    ("kind", "page"),
    [
        ("sqlite", "stores"),
        ("postgres", "stores"),
        ("mariadb", "stores"),
        ("postgres", "event-store"),
        ("mariadb", "execution-store"),
    ],
)
def test_page_runs_at_level_1(kind: str, page: str, tmp_path: Path, fresh_database: Callable[[str], str]) -> None:
    run(page, tmp_path, {"HOLDFAST_DATABASE_URL": fresh_database(kind)})
    assert not (tmp_path / ".holdfast").exists()


def test_pages_run_at_level_0_in_files(tmp_path: Path) -> None:
    run("stores", tmp_path, {"HOLDFAST_DATABASE_URL": "", "DATABASE_URL": ""})
    assert {path.name for path in (tmp_path / ".holdfast").glob("*")} >= {
        "events.sqlite",
        "checkpoints",
        "dead_letters.sqlite",
    }


def test_page_runs_at_level_2(tmp_path: Path, fresh_database: Callable[[str], str]) -> None:
    variables = {"DATABASE_URL": fresh_database("sqlite"), "HOLDFAST_QUEUE_URL": fresh_database("redis")}
    run("stores", tmp_path, variables)
    assert not (tmp_path / ".holdfast").exists()
