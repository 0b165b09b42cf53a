"""The pages of the stores run as written at every level: without a database, with each of them, and with a queue.

The examples are those of the documents. At Level 0 the pages are run with all others, by ``test_snippets``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[[str, dict[str, str]], None]

    from holdfast.testing.nursery import Nursery

ROOT = Path(__file__).resolve().parents[2]
RUN = ROOT / "tests" / "docs" / "test_snippets.py"
PATIENCE = 90


@pytest.fixture
def run(strict_nursery: Nursery, tmp_path: Path) -> Run:
    """Call with a page and the variables that name its databases: nothing else in the environment does."""

    def start(page: str, variables: dict[str, str]) -> None:
        elsewhere = ("DATABASE_URL", "QUEUE_URL")
        environment = {name: value for name, value in os.environ.items() if not name.endswith(elsewhere)} | variables
        file = ROOT / "docs" / "reference" / f"{page}.md"
        done = strict_nursery.run(RUN, str(file), folder=tmp_path, environment=environment, timeout=PATIENCE)
        assert done.returncode == 0, f"{page} does not run with {variables}:\n{done.stdout}\n{done.stderr}"

    return start


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
def test_page_runs_at_level_1(
    kind: str, page: str, tmp_path: Path, fresh_database: Callable[[str], str], run: Run
) -> None:
    run(page, {"HOLDFAST_DATABASE_URL": fresh_database(kind)})
    assert not (tmp_path / ".holdfast").exists()


def test_pages_run_at_level_0_in_files(tmp_path: Path, run: Run) -> None:
    run("stores", {"HOLDFAST_DATABASE_URL": "", "DATABASE_URL": ""})
    assert {path.name for path in (tmp_path / ".holdfast").glob("*")} >= {
        "events.sqlite",
        "checkpoints",
        "dead_letters.sqlite",
    }


def test_page_runs_at_level_2(tmp_path: Path, fresh_database: Callable[[str], str], run: Run) -> None:
    variables = {"DATABASE_URL": fresh_database("sqlite"), "HOLDFAST_QUEUE_URL": fresh_database("redis")}
    run("stores", variables)
    assert not (tmp_path / ".holdfast").exists()
