"""The tool that has the tests' temporary files in memory."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

_TOOL = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "in_memory.py"))
_TELL = "import os, pathlib, sys, tempfile; pathlib.Path(sys.argv[1]).write_text(tempfile.gettempdir()); sys.exit(7)"


def test_command_has_its_temporary_files_there_and_they_are_removed(tmp_path: Path) -> None:
    memory, told = tmp_path / "memory", tmp_path / "told"
    memory.mkdir()
    assert _TOOL["run"]([sys.executable, "-c", _TELL, str(told)], memory) == 7
    assert Path(told.read_text()).parent == memory
    assert not list(memory.iterdir())


def test_command_without_room_has_them_where_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = tmp_path / "told"
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert _TOOL["run"]([sys.executable, "-c", _TELL, str(told)], None) == 7
    assert Path(told.read_text()) == tmp_path


@pytest.mark.parametrize(("wanted", "fits"), [(1, True), (1 << 60, False)])
def test_room_is_what_is_free(tmp_path: Path, wanted: int, fits: bool) -> None:
    assert _TOOL["has_room"](tmp_path, wanted) is fits


def test_folder_that_is_not_there_has_no_room(tmp_path: Path) -> None:
    assert not _TOOL["has_room"](tmp_path / "none", 1)
