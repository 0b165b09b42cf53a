"""``holdfast doctor``: what it finds, and what it says to do."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from holdfast.cli import main
from holdfast.cli.doctor_runs import executor_findings, waiting_findings
from holdfast.cli.doctor_settings import mysql_findings, postgres_findings
from holdfast.cli.doctor_sqlite import file_findings, library_finding
from holdfast.cli.findings import Finding, Level
from holdfast.testing.servers.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

POSTGRES = {
    "server_version": "16.2",
    "server_version_num": "160002",
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "max_connections": "100",
    "superuser_reserved_connections": "3",
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
    "idle_in_transaction_session_timeout": "0",
    "in_recovery": "off",
}
MARIADB = {
    "version": "10.11.6-MariaDB-log",
    "innodb_flush_log_at_trx_commit": "1",
    "log_bin": "ON",
    "sync_binlog": "1",
    "max_allowed_packet": "16777216",
    "sql_mode": "STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION",
    "read_only": "OFF",
    "max_connections": "151",
}


def wrong(findings: Iterable[Finding]) -> list[tuple[str, Level]]:
    found = [each for each in findings if each.level is not Level.OK]
    assert all(each.remedy for each in found)
    return [(each.check, each.level) for each in found]


@pytest.mark.parametrize(
    ("setting", "value", "check", "level"),
    [
        ("server_version_num", "140001", "server version", Level.ADVICE),
        ("fsync", "off", "fsync", Level.PROBLEM),
        ("full_page_writes", "off", "full_page_writes", Level.PROBLEM),
        ("synchronous_commit", "off", "synchronous_commit", Level.PROBLEM),
        ("in_recovery", "on", "primary", Level.PROBLEM),
        ("default_transaction_read_only", "on", "primary", Level.PROBLEM),
        ("default_transaction_isolation", "serializable", "default_transaction_isolation", Level.PROBLEM),
        ("idle_in_transaction_session_timeout", "500", "idle_in_transaction_session_timeout", Level.ADVICE),
        ("max_connections", "20", "max_connections", Level.ADVICE),
        ("connection_limit", "2", "max_connections", Level.ADVICE),
    ],
)
def test_postgres_setting_is_judged(setting: str, value: str, check: str, level: Level) -> None:
    assert wrong(postgres_findings(POSTGRES, 2)) == []
    assert wrong(postgres_findings(POSTGRES | {setting: value}, 2)) == [(check, level)]


def test_postgres_has_connections_for_so_many_executors() -> None:
    assert wrong(postgres_findings(POSTGRES, 5)) == [("max_connections", Level.ADVICE)]


@pytest.mark.parametrize(
    ("setting", "value", "check", "level"),
    [
        ("version", "10.5.20-MariaDB", "server version", Level.PROBLEM),
        ("version", "5.7.44", "server version", Level.PROBLEM),
        ("innodb_flush_log_at_trx_commit", "2", "innodb_flush_log_at_trx_commit", Level.PROBLEM),
        ("sync_binlog", "0", "sync_binlog", Level.PROBLEM),
        ("max_allowed_packet", "1048576", "max_allowed_packet", Level.ADVICE),
        ("sql_mode", "", "sql_mode", Level.ADVICE),
        ("read_only", "ON", "primary", Level.PROBLEM),
    ],
)
def test_mariadb_setting_is_judged(setting: str, value: str, check: str, level: Level) -> None:
    assert wrong(mysql_findings(MARIADB, 2)) == []
    assert wrong(mysql_findings(MARIADB | {setting: value}, 2)) == [(check, level)]


def test_binary_log_that_is_not_kept_need_not_be_synced() -> None:
    assert wrong(mysql_findings(MARIADB | {"sync_binlog": "0", "log_bin": "OFF"}, 1)) == []
    assert wrong(mysql_findings(MARIADB | {"version": "8.0.36"}, 1)) == []


def test_sqlite_library_and_file_are_judged(tmp_path: Path) -> None:
    path = tmp_path / "app.sqlite"
    path.touch()
    assert wrong([library_finding("3.51.3"), *file_findings(path, "wal", 2)]) == []
    assert wrong([library_finding("3.50.4")]) == [("SQLite version", Level.ADVICE)]
    assert wrong(file_findings(path, "delete", 1)) == [
        ("journal_mode", Level.PROBLEM),
        ("synchronous", Level.PROBLEM),
    ]


def executor(**changes: Any) -> dict[str, Any]:
    return {
        "executor_id": "local",
        "hostname": "box",
        "pid": 7,
        "application_version": "v1",
        "queues": "[]",
        "lease_ms": 10_000,
        "stalled_since": None,
        "last_beat_at": 100_000,
        "now_ms": 101_000,
    } | changes


def test_executor_that_is_silent_or_stalled_is_found() -> None:
    assert wrong(executor_findings([executor()])) == []
    [_, silent] = executor_findings([executor(now_ms=120_000)])
    assert "box, process 7" in silent.found
    assert "20 s" in silent.found
    [_, stalled] = executor_findings([executor(stalled_since=100_500)])
    assert "blocked event loop" in stalled.found


@pytest.mark.parametrize(
    ("executors", "waits_for", "remedy"),
    [
        ([], {}, "No executor is alive"),
        ([executor(now_ms=200_000)], {}, "No executor is alive"),
        ([executor()], {"application_version": "v2"}, "version v2"),
        ([executor(queues='["sms"]')], {"queue_name": "mail"}, "queue mail"),
        ([executor()], {"queue_name": "mail"}, "none has the workflow checkout"),  # it listens to all
        ([executor(queues='["mail"]')], {"queue_name": "mail"}, "none has the workflow checkout"),
        ([executor()], {"application_version": None}, "none has the workflow checkout"),
    ],
)
def test_waiting_run_is_found_with_what_it_waits_for(
    executors: list[dict[str, Any]], waits_for: dict[str, Any], remedy: str
) -> None:
    row = {
        "name": "checkout",
        "application_version": "v1",
        "queue_name": "_holdfast_sys_internal",
        "runs": 3,
        "waiting_since": 0,
    }
    [found] = waiting_findings([row | waits_for], executors)
    assert found.level is Level.PROBLEM
    assert remedy in (found.remedy or "")
    assert "3 of checkout" in found.found


def test_nothing_that_waits_is_well() -> None:
    assert wrong(waiting_findings([], [])) == []


def doctor(url: str, code: int) -> dict[str, dict[str, Any]]:
    done = CliRunner().invoke(main, ["doctor", "--url", url, "--json"])
    assert done.exit_code == code, done.output
    answer = json.loads(done.stdout)
    assert answer["ok"] is (code == 0)
    return {each["check"]: each for each in answer["findings"]}


def test_doctor_of_a_missing_file_says_so_and_creates_nothing(tmp_path: Path) -> None:
    found = doctor(str(tmp_path / "none.sqlite"), 1)
    assert "There is no file" in found["connection"]["remedy"]
    assert list(tmp_path.iterdir()) == []


def test_doctor_leaves_a_database_of_others_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "theirs.sqlite"
    with closing(sqlite3.connect(path)) as theirs:
        theirs.execute("CREATE TABLE mine (k INTEGER)")
    before = path.read_bytes()
    assert "no tables" in doctor(str(path), 1)["connection"]["remedy"]
    assert path.read_bytes() == before


@pytest.mark.parametrize("scheme", ["postgresql", "mysql"])
def test_doctor_of_a_server_that_is_away_shows_no_password(scheme: str) -> None:
    url = f"{scheme}://somebody:tops3cret@127.0.0.1:{free_port()}/app"
    done = CliRunner().invoke(main, ["doctor", "--url", url])
    assert done.exit_code == 1
    assert "cannot be reached" in done.stdout
    assert "somebody:***@" in done.stdout
    assert "tops3cret" not in done.output


def test_doctor_needs_a_database(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOLDFAST_DATABASE_URL", "DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    done = CliRunner().invoke(main, ["doctor"])
    assert done.exit_code == 2
    assert "No database was named" in done.stderr
