"""The command line as processes, beside a shop that runs, against every database."""

from __future__ import annotations

import json
import os
import pty
import secrets
import select
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.client import Client
from holdfast.db import DatabaseURL, DialectName, SyncConnectionManager
from holdfast.testing.workers import PATIENCE, Worker, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.model.workflow import StepState
    from holdfast.testing.nursery import Nursery

SHOP = Path(__file__).with_name("programs") / "shop.py"
COMMAND = Path(sys.executable).with_name("holdfast")
GOES_ON = {"PENDING", "DELAYED"}


class Terminal:
    """The command ``holdfast`` with one database in its environment."""

    def __init__(self, url: str, nursery: Nursery) -> None:
        self.url = url
        self._nursery = nursery
        self._environment = {**os.environ, "HOLDFAST_DATABASE_URL": url, "COLUMNS": "200"}

    def run(self, *words: str, code: int = 0, given: str = "") -> str:
        """Run a command without a terminal; return what it printed."""
        done = self.ended(*words, given=given)
        assert done.returncode == code, done.stdout + done.stderr
        password = DatabaseURL.parse(self.url).password
        assert not password or password not in done.stdout + done.stderr
        return done.stdout

    def ended(self, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command without a terminal, whatever its exit code."""
        return self._nursery.run(COMMAND, *words, given=given, environment=self._environment, timeout=PATIENCE)

    def json(self, *words: str, code: int = 0) -> Any:
        return json.loads(self.run(*words, "--json", code=code))

    def status(self, workflow_id: str) -> str:
        """Ask a client, for those who ask again and again."""
        with Client(self.url) as client:
            return client.get_workflow(workflow_id).status.value

    def steps(self, workflow_id: str) -> list[StepState]:
        with Client(self.url) as client:
            return client.list_steps(workflow_id)

    def type(self, *words: str, answer: str) -> tuple[int, str]:
        """Run a command at a terminal, give *answer* to its question; return its exit code and the screen."""
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [COMMAND, *words], stdin=theirs, stdout=theirs, stderr=theirs, env={**self._environment, "TERM": "xterm"}
        )
        os.close(theirs)
        screen = ""
        while True:
            ready, _, _ = select.select([ours], [], [], PATIENCE)
            assert ready, f"The command does not end: {screen}"
            try:
                heard = os.read(ours, 65536)
            except OSError:  # how Linux says that the other end is closed
                break
            if not heard:
                break
            screen += heard.decode()
            if answer and "[y/N]" in screen:
                os.write(ours, answer.encode())
                answer = ""
        os.close(ours)
        return process.wait(PATIENCE), screen


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
def terminal(request: pytest.FixtureRequest, fresh_database: Callable[[str], str], nursery: Nursery) -> Terminal:
    terminal = Terminal(fresh_database(request.param), nursery)
    terminal.run("migrate")
    return terminal


def test_run_is_started_watched_stopped_repaired_and_removed(terminal: Terminal, nursery: Nursery) -> None:
    with Worker(SHOP, nursery, url=terminal.url, name="porter", lease=10) as shop:
        shop.hear("ready")
        assert (
            terminal.run("workflow", "start", "checkout", "--args", "[5]", "--id", "a", "--wait") == "receipt for 5\n"
        )
        [step] = terminal.json("workflow", "steps", "a")["steps"]
        assert (step["function_name"], step["output"]) == ("charge", "receipt for 5")
        assert terminal.run("workflow", "start", "subscribe", "--args", "[7]", "--id", "b") == "b\n"
        until(lambda: terminal.steps("b"))
        assert terminal.status("b") in GOES_ON
        assert terminal.json("workflow", "delete", "b", "--yes", code=1)["refused"][0]["status"] in GOES_ON
        assert terminal.json("workflow", "cancel", "b")["changed"] == ["b"]
        assert terminal.status("b") == "CANCELLED"
        assert terminal.json("workflow", "rewind", "a", "--yes")["changed"] == ["a"]
        until(lambda: terminal.status("a") == "SUCCESS")
        [forked] = terminal.json("workflow", "fork", "a", "--from-step", "2")["forked"]
        until(lambda: terminal.status(forked["new_workflow_id"]) == "SUCCESS")
        assert terminal.json("workflow", "resume", "b")["changed"] == ["b"]
        until(lambda: terminal.status("b") in GOES_ON)
        assert [each["executor_id"] for each in terminal.json("executors")["executors"]] == ["porter"]
        assert [each["version_name"] for each in terminal.json("versions")["versions"]] == ["v1"]
        found = terminal.json("doctor")
        assert found["ok"], found
    document = terminal.run("workflow", "export", "a")
    assert terminal.run("workflow", "delete", "a", "--yes") == "Deleted 1 run.\n"
    assert terminal.run("workflow", "import", given=document) == "Imported a.\n"
    assert terminal.json("prune", "--older-than", "0s", "--yes") == {"dry_run": False, "matched": 2, "deleted": 2}
    assert [each["workflow_id"] for each in terminal.json("workflow", "list")["workflows"]] == ["b"]


def test_doctor_finds_the_silent_and_what_nobody_takes(terminal: Terminal, nursery: Nursery) -> None:
    with Worker(SHOP, nursery, url=terminal.url, name="gone", lease=1) as shop:
        shop.hear("ready")
    problem: Any = until(lambda: _problems(terminal).get("executor"))
    assert "gone" in problem["found"]
    terminal.run("workflow", "start", "checkout", "--id", "a", "--app-version", "v9")
    _age(terminal.url, "a")
    assert "No executor is alive" in _problems(terminal)["waiting runs"]["remedy"]
    with Worker(SHOP, nursery, url=terminal.url, name="porter", lease=10) as shop:
        shop.hear("ready")
        until(lambda: "gone" not in _executors(terminal.url))
        problems = _problems(terminal)
        assert "executor" not in problems
        assert "version v9" in problems["waiting runs"]["remedy"]


def test_doctor_of_a_database_without_tables_says_migrate(
    fresh_database: Callable[[str], str], nursery: Nursery
) -> None:
    for kind in ("postgres", "mariadb"):
        problems = _problems(Terminal(fresh_database(kind), nursery))
        assert "holdfast migrate" in problems["tables"]["remedy"]


def test_doctor_says_what_a_user_may_not_do(fresh_database: Callable[[str], str], nursery: Nursery) -> None:
    url = DatabaseURL.parse(fresh_database("postgres"))
    Terminal(url.secret_text(), nursery).run("migrate")
    user = f"u_{secrets.token_hex(6)}"
    terminal = Terminal(f"postgresql://{user}:w@{url.host}:{url.port}/{url.database}", nursery)
    with SyncConnectionManager(url.secret_text()) as owner:
        owner.execute(f"CREATE ROLE {user} LOGIN PASSWORD 'w'")
        try:
            assert "permission denied" in _problems(terminal)["tables"]["found"]
            owner.execute(f"GRANT USAGE ON SCHEMA holdfast TO {user}")
            owner.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA holdfast TO {user}")
            problems = _problems(terminal)
            assert list(problems) == ["rights"]
            assert "workflow_status" in problems["rights"]["found"]
            owner.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA holdfast TO {user}")
            assert _problems(terminal) == {}
            owner.execute("DROP TABLE holdfast.executors CASCADE")
            assert "executors" in _problems(terminal)["executors"]["found"]
        finally:
            owner.execute(f"DROP OWNED BY {user}")
            owner.execute(f"DROP ROLE {user}")


def test_terminal_is_asked_before_anything_is_lost(fresh_database: Callable[[str], str], nursery: Nursery) -> None:
    terminal = Terminal(fresh_database("sqlite"), nursery)
    terminal.run("migrate")
    ids = [f"run-{number}" for number in range(3)]
    for each in ids:
        terminal.run("workflow", "start", "checkout", "--id", each)
    code, screen = terminal.type("workflow", "cancel", *ids, answer="n\n")
    assert code == 2
    assert "Cancel 3 runs?" in screen
    assert terminal.status(ids[0]) == "ENQUEUED"
    code, screen = terminal.type("workflow", "cancel", *ids, answer="y\n")
    assert code == 0
    assert "Cancelled 3 runs." in screen
    code, screen = terminal.type("workflow", "list", answer="")
    assert code == 0
    assert "──" in screen
    assert all(each in screen for each in ids)
    assert terminal.type("prune", "--older-than", "0s", answer="y\n")[0] == 0
    assert terminal.json("workflow", "list")["workflows"] == []


def _problems(terminal: Terminal) -> dict[str, Any]:
    done = terminal.ended("doctor", "--json", "--url", terminal.url)
    assert done.returncode in {0, 1}, done.stderr
    return {each["check"]: each for each in json.loads(done.stdout)["findings"] if each["level"] == "problem"}


def _executors(url: str) -> set[str]:
    with Client(url) as client:
        return {each.executor_id for each in client.list_executors()}


def _age(url: str, workflow_id: str) -> None:
    """Have a run wait since two minutes ago."""
    with SyncConnectionManager(url) as manager:
        table = "holdfast.workflow_status" if manager.dialect is DialectName.POSTGRES else "workflow_status"
        changed = manager.execute(
            f"UPDATE {table} SET updated_at = updated_at - 120000 WHERE workflow_uuid = ?", workflow_id
        )
        assert changed == 1
