"""What benchmarks are told, and that they measure nothing when they are only asked what that may be."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    Told = Callable[..., tuple[object, str]]

_FOLDER = Path(__file__).parents[2] / "benchmarks"
_PROGRAMS = sorted(_FOLDER.glob("*.py"))


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Told:
    """Call with a benchmark and its arguments: how it ends, and what it says."""
    monkeypatch.syspath_prepend(_FOLDER)
    monkeypatch.setenv("COLUMNS", "120")

    def tell(program: Path, *arguments: str) -> tuple[object, str]:
        monkeypatch.setattr(sys, "argv", [str(program), *arguments])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(program), run_name="__main__")
        said = capsys.readouterr()
        return ended.value.code, said.out + said.err

    return tell


def _children() -> set[str]:
    lists = Path("/proc/self/task").glob("*/children")
    return {child for children in lists for child in children.read_text().split()}


@pytest.mark.parametrize("program", _PROGRAMS, ids=lambda program: program.stem)
def test_benchmark_is_on_the_page(program: Path) -> None:
    assert f"| `{program.name}` |" in (_FOLDER / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("program", _PROGRAMS, ids=lambda program: program.stem)
def test_benchmark_asked_for_help_names_its_options(program: Path, told: Told) -> None:
    text = program.read_text(encoding="utf-8")
    code, said = told(program, "--help")
    assert code == 0
    assert f"usage: {program.name}" in said
    assert text.split('"""')[1].splitlines()[0] in said
    assert ("--no-peers" in said) == ("from yard.peers import" in text)
    assert ("DATABASE" in said) == ("databases=" in text)


@pytest.mark.parametrize("program", _PROGRAMS, ids=lambda program: program.stem)
def test_benchmark_refuses_what_it_does_not_know(program: Path, told: Told) -> None:
    code, said = told(program, "--no-such-option")
    assert code == 2
    assert "--no-such-option" in said


@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        ("workflows", ["sqlit"], "argument DATABASE: 'sqlit' is not one of sqlite, postgres, mariadb"),
        ("workflows", ["--runs", "0"], "argument --runs: '0' is no number from 1 to 1,000,000,000"),
        ("workflows", ["--runs", "few"], "argument --runs: 'few' is no number from 1 to 1,000,000,000"),
        ("streams", ["--entries", "15000"], "'15000' is no number from 10,000 to 1,000,000,000 in steps of 10,000"),
        ("at_rest", ["--seconds", "0"], "argument --seconds: '0' is no number of seconds above 0"),
        ("at_rest", ["--seconds", "long"], "argument --seconds: 'long' is no number of seconds above 0"),
    ],
)
def test_benchmark_says_what_may_be_given(name: str, arguments: list[str], reason: str, told: Told) -> None:
    code, said = told(_FOLDER / f"{name}.py", *arguments)
    assert code == 2
    assert reason in said


def test_databases_start_only_what_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(_FOLDER)
    from yard.databases import databases

    before = _children()
    with databases("sqlite") as urls:
        assert list(urls) == ["sqlite"]
        assert _children() == before
