"""The tool that checks who imports whom."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_TOOL = Path(__file__).parents[2] / "tools" / "check_layers.py"


def check(root: Path, *options: str) -> tuple[int, list[str]]:
    done = subprocess.run(
        [sys.executable, str(_TOOL), "--root", str(root), *options],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A small checkout without offences."""
    files = {
        "__init__.py": "from holdfast.app import Holdfast\n",
        "errors.py": "import os\n",
        "faults.py": "import os\n",
        "model/__init__.py": "from .world import World\n",
        "model/world.py": "import holdfastly\n",
        "db/__init__.py": "from holdfast import errors\nfrom ..model import world\n",
        "app.py": "import holdfast.db\n",
        "cli/__init__.py": "from holdfast import Holdfast\n",
        "testing/__init__.py": "from holdfast.cli import main\n",
    }
    for name, text in files.items():
        put(tmp_path, name, text)
    return tmp_path


def put(root: Path, name: str, text: str) -> None:
    path = root / "src" / "holdfast" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_layers_of_a_clean_house_pass(house: Path) -> None:
    assert check(house) == (0, [])


@pytest.mark.parametrize(
    ("name", "text", "row"),
    [
        ("db/pool.py", "\nimport holdfast.stores.events\n", "db/pool.py:2 db -> stores"),
        ("core/retry.py", "from holdfast.db import x\n", "core/retry.py:1 core -> db"),
        ("core/deep/er.py", "from ...db import x\n", "core/deep/er.py:1 core -> db"),
        ("core/__init__.py", "from ..db import x\n", "core/__init__.py:1 core -> db"),
        ("model/step.py", "from holdfast import errors\n", "model/step.py:1 model -> errors"),
        ("model/step.py", "from .. import errors\n", "model/step.py:1 model -> errors"),
        ("db/pool.py", "from holdfast import Holdfast\n", "db/pool.py:1 db -> __init__"),
        ("db/pool.py", "import holdfast\n", "db/pool.py:1 db -> __init__"),
        ("app.py", "from holdfast.cli import main\n", "app.py:1 app -> cli"),
        ("web/api.py", "from holdfast.cli import main\n", "web/api.py:1 web -> cli"),
        ("__init__.py", "from holdfast.testing import x\n", "__init__.py:1 __init__ -> testing"),
        ("cli/main.py", "def f():\n    from holdfast.testing import x\n", "cli/main.py:2 cli -> testing"),
    ],
)
def test_layers_offence_is_named_with_its_place(house: Path, name: str, text: str, row: str) -> None:
    put(house, name, text)
    assert check(house) == (1, [f"src/holdfast/{row}"])


def test_layers_count_imports_for_the_type_checker(house: Path) -> None:
    put(
        house,
        "core/a.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from holdfast.app import Holdfast\n",
    )
    assert check(house) == (1, ["src/holdfast/core/a.py:3 core -> app"])


@pytest.mark.parametrize("name", ["helpers.py", "common/things.py"])
def test_layers_refuse_a_room_that_is_not_in_the_table(house: Path, name: str) -> None:
    put(house, name, "")
    code, rows = check(house)
    assert code == 1
    assert len(rows) == 1
    assert "is no room of the table" in rows[0]


def test_layers_accept_the_page_that_has_their_table(house: Path) -> None:
    _, rows = check(house, "--table")
    (house / "ARCHITECTURE.md").write_text(
        "# House\n\n" + "\n".join(rows) + "\n\n| other | table |\n|---|---|\n| a | b |\n"
    )
    assert check(house) == (0, [])


def test_layers_refuse_a_page_that_says_something_else(house: Path) -> None:
    _, rows = check(house, "--table")
    page = "\n".join(rows).replace("| `faults` | nothing |", "| `faults` | `errors` |")
    (house / "ARCHITECTURE.md").write_text(page)
    assert check(house) == (1, ["ARCHITECTURE.md:5 faults: the rule is: nothing"])


def test_layers_refuse_a_page_without_the_table(house: Path) -> None:
    (house / "ARCHITECTURE.md").write_text("# House\n")
    code, rows = check(house)
    assert code == 1
    assert "does not have: model, errors, faults, core" in rows[0]
