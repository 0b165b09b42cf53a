"""``holdfast migrate`` as it is typed."""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from holdfast.cli import main
from holdfast.db import ConnectionManager
from holdfast.db.migrations.migrator import Migrator
from holdfast.testing.servers.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(autouse=True)
def _no_database_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_DATABASE_URL", raising=False)
    monkeypatch.delenv("DATABASE_URL", raising=False)


def holdfast(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


def versions(path: Path) -> list[int]:
    connection = sqlite3.connect(path)
    found = [row[0] for row in connection.execute("SELECT version FROM holdfast_migrations")]
    connection.close()
    return found


def latest() -> int:
    return Migrator(ConnectionManager(":memory:")).latest


def test_migrate_applies_and_says_what(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    done = holdfast("migrate", str(path))
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == "Applied 0001_foundation."
    assert done.stdout.splitlines()[-1] == f"The tables in sqlite:///{path} are as this release needs them."
    assert versions(path) == [latest()]


def test_migrate_of_a_current_database_applies_nothing(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    holdfast("migrate", str(path))
    done = holdfast("migrate", str(path))
    assert done.exit_code == 0
    assert "Applied" not in done.stdout


def test_check_of_a_database_that_waits_for_migrations_exits_with_one_and_changes_nothing(
    tmp_path: Path,
) -> None:
    path = tmp_path / "app.db"
    done = holdfast("migrate", str(path), "--check")
    assert done.exit_code == 1
    assert "0001_foundation" in done.stdout
    assert "Run `holdfast migrate`." in done.stdout
    assert not path.exists()


def test_check_of_a_current_database_exits_with_zero(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    holdfast("migrate", str(path))
    assert holdfast("migrate", str(path), "--check").exit_code == 0


def test_check_of_a_database_that_is_too_new_exits_with_two(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    holdfast("migrate", str(path))
    connection = sqlite3.connect(path)
    connection.execute("UPDATE holdfast_migrations SET version = 4711")
    connection.commit()
    connection.close()
    for option in ([], ["--check"], ["--print"]):
        done = holdfast("migrate", str(path), *option)
        assert done.exit_code == 2
        assert done.stdout == ""
        assert "are at version 4711" in done.stderr
    assert versions(path) == [4711]


def test_print_shows_sql_that_brings_the_database_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    done = holdfast("migrate", str(path), "--print")
    assert done.exit_code == 0
    assert not path.exists()
    connection = sqlite3.connect(path)
    connection.executescript(done.stdout)
    connection.close()
    assert holdfast("migrate", str(path), "--check").exit_code == 0


def test_print_and_check_exclude_each_other(tmp_path: Path) -> None:
    done = holdfast("migrate", str(tmp_path / "app.db"), "--print", "--check")
    assert done.exit_code == 2
    assert "exclude each other" in done.stderr


def test_database_comes_from_the_environment_ours_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{tmp_path}/theirs.db")
    assert holdfast("migrate").exit_code == 0
    assert versions(tmp_path / "theirs.db") == [latest()]
    monkeypatch.setenv("HOLDFAST_DATABASE_URL", f"sqlite:///{tmp_path}/ours.db")
    assert holdfast("migrate").exit_code == 0
    assert versions(tmp_path / "ours.db") == [latest()]


def test_database_that_is_not_named_is_asked_for() -> None:
    done = holdfast("migrate")
    assert done.exit_code == 2
    assert done.stderr == (
        "Error: No database was named: give its URL, or set HOLDFAST_DATABASE_URL or DATABASE_URL.\n"
    )


@pytest.mark.parametrize("scheme", ["postgresql", "mysql"])
@pytest.mark.parametrize("option", [[], ["--check"], ["--print"]])
def test_error_is_one_line_without_the_password(scheme: str, option: list[str]) -> None:
    done = holdfast("migrate", f"{scheme}://somebody:tops3cret@127.0.0.1:{free_port()}/app", *option)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("Error: ")
    assert "cannot be reached" in done.stderr
    assert "tops3cret" not in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["oracle://somebody:tops3cret@host/app"],
        ["postgresql://somebody:tops3cret@"],
        ["postgresql://somebody:tops3cret@127.0.0.1/app", "--schema", "no-such schema"],
    ],
)
def test_input_that_cannot_be_right_is_refused_in_one_line(words: list[str]) -> None:
    done = holdfast("migrate", *words)
    assert done.exit_code == 2
    assert len(done.stderr.splitlines()) == 1
    assert "tops3cret" not in done.stderr


def test_schema_is_the_one_that_is_asked_for(fresh_database: Callable[[str], str]) -> None:
    url = fresh_database("postgres")
    assert holdfast("migrate", url, "--schema", "durable").exit_code == 0
    assert holdfast("migrate", url, "--schema", "durable", "--check").exit_code == 0
    assert holdfast("migrate", url, "--check").exit_code == 1

    async def schemas() -> list[str]:
        async with ConnectionManager(url) as manager:
            found = await manager.fetch("SELECT nspname FROM pg_namespace WHERE nspname IN ('durable', 'holdfast')")
            return [row["nspname"] for row in found]

    assert asyncio.run(schemas()) == ["durable"]


def test_version_is_that_of_the_package() -> None:
    done = holdfast("--version")
    assert (done.exit_code, done.stdout) == (0, f"holdfast {version('holdfast')}\n")


def test_command_that_does_not_exist_is_refused() -> None:
    done = holdfast("migrat")
    assert done.exit_code == 2
    assert "No such command 'migrat'" in done.stderr


def test_help_lists_the_commands_and_loads_none_of_them() -> None:
    script = (
        "import sys\nfrom holdfast.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit as done:\n    assert done.code == 0\n"
        "heavy = ('rich', 'holdfast.cli.migrate', 'holdfast.cli.workflow', 'holdfast.client')\n"
        "print([name for name in heavy if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert re.search(r"migrate +Bring a database's tables", done.stdout)
    assert done.stdout.splitlines()[-1] == "[]"


def test_migrate_takes_its_url_as_other_commands_do(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    done = holdfast("migrate", "--url", str(path))
    assert done.exit_code == 0
    assert versions(path) == [latest()]
    assert holdfast("migrate", str(path), "--check").exit_code == 0


def test_migrate_that_is_given_two_urls_is_refused(tmp_path: Path) -> None:
    done = holdfast("migrate", str(tmp_path / "one.db"), "--url", str(tmp_path / "two.db"))
    assert done.exit_code == 2
    assert "give one of them" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words", [["migrate"], ["migrate", "--check"], ["workflow", "list"], ["breakers", "list"], ["dead-letters", "list"]]
)
def test_file_that_cannot_be_looked_at_is_one_line_and_an_exit_code(tmp_path: Path, words: list[str]) -> None:
    """As in a folder of somebody else's; to a superuser that happens with names alone."""
    done = holdfast(*words, "--url", str(tmp_path / ("x" * 300)))
    assert done.exit_code == 2
    assert "check its path and the permissions of its folders" in done.stderr


@pytest.mark.parametrize("words", [["migrate"], ["workflow", "list"], ["workflow", "list", "--json"]])
def test_output_that_cannot_be_written_is_one_line_and_an_exit_code(tmp_path: Path, words: list[str]) -> None:
    path = tmp_path / "app.db"
    holdfast("migrate", str(path))
    program = "from holdfast.cli import main; main()"
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", program, *words, "--url", f"sqlite:///{path}"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "Error: The output could not be written: No space left on device."
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", [["migrate"], ["workflow", "list"], ["workflow", "list", "--json"]])
def test_command_whose_output_nobody_reads_any_more_has_an_exit_code_of_its_own(
    tmp_path: Path, words: list[str]
) -> None:
    path = tmp_path / "app.db"
    holdfast("migrate", str(path))
    program = "from holdfast.cli import main; main()"
    reads, writes = os.pipe()
    os.close(reads)
    try:
        done = subprocess.run(
            [sys.executable, "-c", program, *words, "--url", f"sqlite:///{path}"],
            stdout=writes,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            check=False,
        )
    finally:
        os.close(writes)
    assert (done.returncode, "Error" in done.stderr, "Traceback" in done.stderr) == (141, False, False)
