"""No test is skipped in a way that CI would not see."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from holdfast.testing.skips import SkipReason, skip

_CHECKOUT = Path(__file__).parents[2]
_THE_ONE_PLACE = _CHECKOUT / "src" / "holdfast" / "testing" / "skips.py"
_WAYS_TO_SKIP = {"skip", "skipif", "importorskip", "skipTest", "skipUnless", "SkipTest"}


def skips_in(source: str) -> list[int]:
    """Lines of *source* that skip by a way of pytest's or unittest's."""
    found = []
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        if isinstance(node, ast.Attribute):
            names = [node.attr]
        elif isinstance(node, ast.ImportFrom) and node.module in {"pytest", "unittest"}:
            names = [alias.name for alias in node.names]
        if _WAYS_TO_SKIP & set(names):
            found.append(getattr(node, "lineno", 0))
    return found


def test_skips_go_through_the_closed_list() -> None:
    files = [
        *(_CHECKOUT / "tests").rglob("*.py"),
        *(_CHECKOUT / "src" / "holdfast" / "testing").rglob("*.py"),
    ]
    offences = [
        f"{file.relative_to(_CHECKOUT)}:{line}"
        for file in files
        if file != _THE_ONE_PLACE
        for line in skips_in(file.read_text(encoding="utf-8"))
    ]
    assert offences == []


@pytest.mark.parametrize(
    "source",
    [
        "pytest.skip('later')",
        "@pytest.mark.skipif(True, reason='never')\ndef test(): ...",
        "pytest.importorskip('redis')",
        "from pytest import skip",
        "raise unittest.SkipTest",
    ],
)
def test_skips_by_other_ways_are_seen(source: str) -> None:
    assert skips_in(source) == [1]


def test_skip_outside_ci_gives_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(BaseException, match="install 'redis-server'") as skipped:
        skip(SkipReason.NO_REDIS)
    assert type(skipped.value).__name__ == "Skipped"


def test_skip_in_ci_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(BaseException, match="In CI nothing is skipped") as failed:
        skip(SkipReason.NO_REDIS)
    assert type(failed.value).__name__ == "Failed"
