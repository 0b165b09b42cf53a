"""``holdfast dead-letters`` as it is typed."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import fields

from holdfast.stores import SQLFailedOperationRepository
from holdfast.testing.workers import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

COMMAND = Path(sys.executable).with_name("holdfast")
APPLICATION = """
import asyncio
from pathlib import Path

from holdfast import {kind}

app = {kind}()

@app.replay_handler("slow")
async def wait(letter):
    Path(f"{{letter.id}}.begun").touch()
    await asyncio.Event().wait()

@app.replay_handler("mail")
{function}def send(letter):
    if letter.request_data.get("bad"):
        raise OSError("no way, half \\ud800")

@app.replay_handler("news", automatic=True)
{function}def tell(letter):
    pass
"""


@pytest.fixture
def letters(shop: Any) -> Iterator[SQLFailedOperationRepository]:
    with SQLFailedOperationRepository(f"sqlite:///{shop.path}") as repository:
        yield repository


@pytest.fixture(params=["Holdfast", "AsyncHoldfast"])
def application(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module with an application of either colour; returns its place."""
    kind = request.param
    name = f"replaying_{kind.lower()}"
    text = APPLICATION.format(kind=kind, function="async " if kind.startswith("Async") else "")
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, name, raising=False)
    return f"{name}:app"


def test_letters_are_listed_shown_and_counted(shop: Any, letters: SQLFailedOperationRepository) -> None:
    first = letters.create("mail", "timeout", "too late", request_data={"to": "ada"})
    letters.create("bank", "refused")
    lines = [line.split("\t") for line in shop.run("dead-letters", "list").stdout.splitlines()]
    assert lines[0][:3] == ["letter", "status", "domain"]
    assert {line[2] for line in lines[1:]} == {"mail", "bank"}
    [only] = shop.json("dead-letters", "list", "--domain", "mail", "--status", "pending")["dead_letters"]
    assert (only["id"], only["request_data"]) == (first.id, {"to": "ada"})
    assert set(only) == {field.name for field in fields(first)} - {"replay_token", "version"}
    assert "too late" in shop.run("dead-letters", "show", first.id).stdout
    assert shop.json("dead-letters", "stats")["by_domain"] == {"mail": 1, "bank": 1}


def test_letters_are_resolved_archived_and_purged_after_a_question(
    shop: Any, letters: SQLFailedOperationRepository
) -> None:
    ids = [letters.create("mail", "t").id for _ in range(2)]
    asked = shop.run("dead-letters", "resolve", *ids)
    assert (asked.exit_code, "--yes" in asked.stderr) == (2, True)
    assert shop.json("dead-letters", "resolve", *ids, "--note", "by hand", "--by", "7", "--yes")["resolved"] == ids
    assert shop.run("dead-letters", "archive", "--days", "0").exit_code == 2
    assert shop.json("dead-letters", "archive", "--days", "0", "--yes")["archived"] == 2
    assert shop.run("dead-letters", "purge", "--days", "0").exit_code == 2
    assert shop.json("dead-letters", "purge", ids[0], "--yes")["purged"] == 1
    assert shop.json("dead-letters", "purge", "--days", "0", "--yes")["purged"] == 1
    assert letters.count() == 0


def test_letter_that_is_named_twice_is_one(shop: Any, letters: SQLFailedOperationRepository) -> None:
    twice = [letters.create("mail", "t").id] * 2
    assert shop.run("dead-letters", "resolve", *twice).stdout == "Resolved 1.\n"
    shop.run("dead-letters", "archive", "--days", "0", "--yes")
    assert "Delete 1 archived" in shop.run("dead-letters", "purge", *twice).stderr
    assert shop.json("dead-letters", "purge", *twice, "--yes")["purged"] == 1


def test_errors_are_whole_where_no_terminal_cuts_them(shop: Any, letters: SQLFailedOperationRepository) -> None:
    letters.create("mail", "timeout", "word " * 100 + "end")
    [_, line] = shop.run("dead-letters", "list").stdout.splitlines()
    assert line.endswith("word end")


def test_what_cannot_be_done_is_said(shop: Any, letters: SQLFailedOperationRepository) -> None:
    pending = letters.create("mail", "t").id
    for words in (
        ["show", "nowhere"],
        ["resolve", "nowhere"],
        ["resolve"],
        ["purge"],
        ["purge", pending, "--yes"],
        ["purge", "nowhere", "--yes"],
    ):
        done = shop.run("dead-letters", *words)
        assert (done.exit_code, done.stdout) == (2, ""), words
    assert letters.count(status="pending") == 1


def test_letters_are_replayed_by_the_application(
    shop: Any, letters: SQLFailedOperationRepository, application: str
) -> None:
    good = letters.create("mail", "t").id
    bad = letters.create("mail", "t", request_data={"bad": True}).id
    letters.create("bank", "t")
    dry = shop.json("dead-letters", "replay", application, "--domain", "mail", "--dry-run")
    assert dry["would_replay"] == 2
    assert letters.count(status="pending") == 3
    assert shop.run("dead-letters", "replay", application).exit_code == 2
    report = shop.json("dead-letters", "replay", application, "--domain", "mail", "--yes", code=1)
    assert (report["replayed"], report["failed"]) == (1, 1)
    assert {each["id"]: each["result"] for each in report["outcomes"]} == {good: "replayed", bad: "failed"}
    told = shop.run("dead-letters", "replay", application, bad, "--force")
    assert (told.exit_code, "OSError: no way" in told.stdout) == (1, True)


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_replay_that_is_told_to_stop_holds_no_letter_and_counts_what_was_begun(
    letters: SQLFailedOperationRepository, application: str, number: signal.Signals, code: int, tmp_path: Path
) -> None:
    for _ in range(9):
        letters.create("slow", "t")
    words = [str(COMMAND), "dead-letters", "replay", application, "--yes", "--concurrency", "2"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until(lambda: len(list(tmp_path.glob("*.begun"))) == 2)
    process.send_signal(number)
    out, told = process.communicate(timeout=60)
    assert (process.returncode, out, "Traceback" in told) == (code, "", False)
    found = letters.find()
    assert {each.status for each in found} == {"pending"}
    assert sorted(each.retry_count for each in found) == [0] * 7 + [1] * 2


def test_letters_that_nobody_has_asked_for_are_not_replayed(
    shop: Any, letters: SQLFailedOperationRepository, application: str
) -> None:
    due = letters.create("news", "t", retry_delay=60)
    letters.create("mail", "t")
    assert shop.json("dead-letters", "replay", application, "--dry-run")["would_replay"] == 2
    assert shop.json("dead-letters", "replay", application, "--domain", "mail", "--yes")["matched"] == 1
    assert letters.get_by_id(due.id) == due
    assert shop.json("dead-letters", "replay", application, due.id)["replayed"] == 1


def test_letters_that_are_not_there_are_named_and_the_others_are_replayed(
    shop: Any, letters: SQLFailedOperationRepository, application: str
) -> None:
    good, other = (letters.create("mail", "t").id for _ in range(2))
    told = shop.run("dead-letters", "replay", application, "nowhere", good, good, "--yes")
    assert told.exit_code == 1
    assert [line.split("\t")[:3] for line in told.stdout.splitlines()[1:]] == [[good, "mail", "replayed"]]
    assert "There is no dead letter 'nowhere'" in told.stderr
    assert "1 matched: 1 replayed." in told.stderr
    report = shop.json("dead-letters", "replay", application, other, "nowhere", "--yes", code=1)
    assert (report["matched"], report["replayed"], report["missing"]) == (1, 1, ["nowhere"])


def test_nothing_to_replay_is_said_and_is_no_failure(
    shop: Any, letters: SQLFailedOperationRepository, application: str
) -> None:
    told = shop.run("dead-letters", "replay", application, "--yes")
    assert (told.exit_code, told.stdout.splitlines()) == (0, ["letter\tdomain\tresult\twhy"])
    assert "Nothing was replayed: no letter matched.\n" in told.stderr


def test_progress_is_of_the_letters_that_were_asked_for(
    shop: Any, letters: SQLFailedOperationRepository, application: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[int, list[int]]] = []

    @contextmanager
    def progress(_: str, total: int) -> Iterator[Callable[[int], None]]:
        told.append((total, []))
        yield told[-1][1].append

    monkeypatch.setattr("holdfast.cli.dead_letters.progress", progress)
    ids = [letters.create("mail", "t").id for _ in range(3)]
    shop.run("dead-letters", "replay", application, *ids, "--yes")
    letters.create("mail", "t")
    letters.create("mail", "u")
    letters.update_status(letters.create("mail", "u").id, "requires_review")
    shop.run("dead-letters", "replay", application, "--type", "u", "--force", "--yes")
    assert told == [(3, [1, 2, 3]), (2, [1, 2])]
