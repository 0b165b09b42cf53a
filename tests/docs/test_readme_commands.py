"""What the pages name exists: commands, make targets, files, headings; and the first screen shows the real demo."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

_LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_FENCED = re.compile(r"^(?P<fence> *```).*?^ *```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ (?P<text>.+)$", re.MULTILINE)


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _prose(page: Path) -> str:
    return _FENCED.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """Return the anchors a reader's browser makes of the headings of *page*."""
    found: set[str] = set()
    for match in _HEADING.finditer(_prose(page)):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match["text"]).lower()
        anchor = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        number = 0
        while (anchor if not number else f"{anchor}-{number}") in found:
            number += 1
        found.add(anchor if not number else f"{anchor}-{number}")
    return found


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for match in _LINK.finditer(_prose(page)):
        path, _, anchor = match["target"].partition("#")
        if "://" in path:
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(match["target"])
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_make_targets_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = set(re.findall(r"(?:^\$ |`)make ([a-z]+)", text, re.MULTILINE))
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert named <= targets


@pytest.mark.parametrize("command", ["demo", "test"])
def test_the_two_commands_can_be_made(command: str) -> None:
    done = subprocess.run(["make", "-n", command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert ("examples/demo.py" if command == "demo" else "pytest") in done.stdout


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    pages = [page.relative_to(ROOT / "docs") for page in (ROOT / "docs").rglob("*.md")]
    missing = [str(page) for page in pages if page.parts[0] not in {"coverage", "README.md"} and str(page) not in index]
    assert missing == []


def test_first_screen_of_the_readme_shows_what_the_demo_prints() -> None:
    program = (ROOT / "examples" / "demo.py").read_text(encoding="utf-8")
    screen = (ROOT / "README.md").read_text(encoding="utf-8").split("```")[1]
    for text in (
        "An order on SQLite: reserve, charge, pack, ship. Its worker is killed on the way.",
        "the workflow's code begins at the top",
        "the worker dies in the middle of",
        "comes from the record, nothing is done again",
        "The order ended, and the card was charged once.",
    ):
        assert text in screen
        assert text in program
