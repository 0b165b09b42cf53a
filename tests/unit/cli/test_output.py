"""What commands print, and what they never do to a terminal."""

from __future__ import annotations

import json
import re
import sys
from datetime import UTC, datetime
from io import BytesIO, TextIOWrapper

import pytest

from holdfast.cli.output import Output, moment, printable, shown


def test_text_of_others_cannot_command_a_terminal() -> None:
    assert printable("a\x1b[31mb\nc\td\x7f") == r"a\x1b[31mb\nc\td\x7f"
    assert printable("Äö 🐙") == "Äö 🐙"
    assert printable("\u202eright to left") == r"\u202eright to left"


def test_cell_is_text_as_it_is_and_anything_else_as_json() -> None:
    assert [shown(each) for each in (None, "a", 1, {"a": [1]}, True)] == ["", "a", "1", '{"a":[1]}', "true"]


def test_moment_is_shown_in_utc_to_the_millisecond() -> None:
    at = int(datetime(2030, 1, 31, 12, 0, 0, 5000, tzinfo=UTC).timestamp() * 1000)
    assert moment(at) == "2030-01-31 12:00:00.005Z"
    assert moment(None) is None


def test_table_in_a_pipe_is_a_line_a_row_with_nothing_cut(capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 300
    Output(as_json=False).table(("id", "name"), [(long, "a\nb"), (2, None)])
    assert capsys.readouterr().out == f"id\tname\n{long}\ta\\nb\n2\t\n"


def test_letters_that_a_locale_does_not_have_are_spelled_out(monkeypatch: pytest.MonkeyPatch) -> None:
    written = BytesIO()
    with TextIOWrapper(written, "latin-1") as stdout, monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", stdout)
        Output(as_json=False).table(("id",), [("ä-東",)])
        Output(as_json=True).document("ä-東")
        stdout.flush()
        assert written.getvalue() == b"id\n\xe4-\\u6771\n" + '"ä-東"\n'.encode()


def test_json_is_one_document_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    out = Output(as_json=True)
    out.say("hello")
    out.table(("a",), [(1,)])
    out.document({"a": [1, None, "ä"]})
    assert json.loads(capsys.readouterr().out) == {"a": [1, None, "ä"]}


def test_facts_on_a_terminal_are_framed_and_nothing_is_cut(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    Output(as_json=False).facts([("id", "[red]one[/red]"), ("input", "x" * 300), ("none", None)])
    printed = capsys.readouterr().out
    assert "[red]one[/red]" in printed
    assert "┃" in printed
    assert printed.count("x") == 300


def _terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    for name, value in {"TERM": "xterm", "NO_COLOR": "1", "FORCE_COLOR": "1", "COLUMNS": str(width)}.items():
        monkeypatch.setenv(name, value)


def _lines(printed: str) -> list[str]:
    return [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in printed.splitlines()]


@pytest.mark.parametrize("width", [80, 100, 132, 200])
def test_row_on_a_terminal_is_one_line_whatever_its_width(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    _terminal(monkeypatch, width)
    id_, time = "01a1e4fa-38b3-7000-9a44-c9fa2baf3881", "2026-11-16 15:29:26.123Z"
    columns = ("id", "status", "name", "created", "queue", "completed", "executor", "version")
    row = (
        id_,
        "SUCCESS",
        "checkout",
        time,
        "_holdfast_sys_internal",
        time,
        "local",
        "e8f5902845ba97c20cdf41b3eca385eb",
    )
    Output(as_json=False).table(columns, [row, (id_, "PENDING", "checkout", time, None, None, "local", None)])
    printed, remarks = capsys.readouterr()
    lines = _lines(printed)
    assert len(lines) == 4
    assert all(len(line) <= width for line in lines)
    assert all(
        line.startswith(f"{id_}  {status}") for line, status in zip(lines[2:], ("SUCCESS", "PENDING"), strict=True)
    )
    assert "2026-11-16 15:29:26Z" in lines[2]
    left_out = re.findall(r"\b(\w+)(?=[,:])", remarks.partition(" for ")[2])
    assert lines[0].split() == [column for column in columns if column not in left_out]
    assert ("version" in left_out) == (width < 150)


def test_column_in_which_nothing_stands_is_left_out_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    Output(as_json=False).table(("id", "queue", "name"), [("[red]one[/red]", None, "checkout")])
    printed, remarks = capsys.readouterr()
    assert "queue" not in printed
    assert "[red]one[/red]" in printed
    assert remarks == ""


def test_cell_that_is_cut_takes_no_room_from_the_others(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _terminal(monkeypatch, 80)
    Output(as_json=False).table(("step", "name", "output", "ended"), [(1, "charge", "x" * 300, "2026-11-16")])
    assert [line.split() for line in _lines(capsys.readouterr().out)[::2]] == [
        ["step", "name", "output", "ended"],
        ["1", "charge", "x" * 39 + "…", "2026-11-16"],
    ]


@pytest.mark.parametrize("id_", ["order-" * 30, "注文" * 20])
def test_id_is_never_cut_however_long_or_wide_it_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, id_: str
) -> None:
    _terminal(monkeypatch, 80)
    Output(as_json=False).table(("id", "status", "name"), [(id_, "SUCCESS", "checkout")])
    assert _lines(capsys.readouterr().out)[2].split()[:2] == [id_, "SUCCESS"]


def test_table_without_rows_shows_its_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _terminal(monkeypatch, 80)
    Output(as_json=False).table(("id", "status", "name"), [])
    assert _lines(capsys.readouterr().out)[0].split() == ["id", "status", "name"]


def test_sentences_about_rows_stand_whole_below_the_table(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    remedy = "Let both hosts set their clocks by NTP. " * 5 + "Thanks."
    rows = [("ok", "driver", "here", None), ("problem", "clock", "late", remedy)]
    columns = ("", "check", "found", "what to do")
    Output(as_json=False).table(columns, rows, about="check")
    assert capsys.readouterr().out.splitlines()[2] == f"problem\tclock\tlate\t{remedy}"
    _terminal(monkeypatch, 80)
    Output(as_json=False).table(columns, rows, about="check")
    printed, remarks = capsys.readouterr()
    lines = _lines(printed)
    assert [line.split() for line in lines[:4:3]] == [["check", "found"], ["problem", "clock", "late"]]
    assert " ".join(" ".join(lines[4:]).split()) == f"clock: {remedy}"
    assert all(len(line) <= 80 for line in lines)
    assert remarks == ""
