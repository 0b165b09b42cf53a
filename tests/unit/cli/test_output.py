"""What commands print, and what they never do to a terminal."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from holdfast.cli.output import Output, moment, printable, shown

if TYPE_CHECKING:
    import pytest


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


def test_json_is_one_document_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    out = Output(as_json=True)
    out.say("hello")
    out.table(("a",), [(1,)])
    out.document({"a": [1, None, "ä"]})
    assert json.loads(capsys.readouterr().out) == {"a": [1, None, "ä"]}


def test_table_on_a_terminal_is_framed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    Output(as_json=False).table(("id",), [("[red]one[/red]",)])
    printed = capsys.readouterr().out
    assert "[red]one[/red]" in printed
    assert "┃" in printed
