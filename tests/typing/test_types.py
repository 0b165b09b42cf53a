"""Runs mypy over the files that state the public types."""

from __future__ import annotations

import shutil
from pathlib import Path

import mypy.api

_HERE = Path(__file__).parent
_CONFIG = str(_HERE.parents[1] / "pyproject.toml")
_KNOWN = _HERE.parents[1] / ".mypy_cache"
_FILES = sorted(set(_HERE.glob("*_types.py")) - {Path(__file__)})
_MARK = "# type: ignore["


def test_public_types_are_exact_and_wrong_use_of_them_is_found(tmp_path: Path) -> None:
    """The files are right as they stand; and what they mark as wrong is wrong: mypy complains once for each mark."""
    assert len(_FILES) > 1
    if _KNOWN.is_dir():  # what a check of the whole project has found out need not be found out again
        shutil.copytree(_KNOWN, tmp_path / "cache")
    cache = ["--config-file", _CONFIG, "--cache-dir", str(tmp_path / "cache")]
    assert mypy.api.run([*cache, "--no-error-summary", *map(str, _FILES)]) == ("", "", 0)

    wrong: set[tuple[str, int]] = set()
    unmarked = []
    for file in _FILES:
        text = file.read_text(encoding="utf-8")
        lines = enumerate(text.splitlines(), 1)
        wrong |= {(f"unmarked_{file.name}", number) for number, line in lines if _MARK in line}
        unmarked.append(tmp_path / f"unmarked_{file.name}")
        unmarked[-1].write_text(text.replace(_MARK, "# wrong: ["), encoding="utf-8")
    found, _, status = mypy.api.run([*cache, *map(str, unmarked)])
    places = (line.split(":") for line in found.splitlines() if ": error:" in line)
    assert {(Path(place[0]).name, int(place[1])) for place in places} == wrong
    assert status == 1
