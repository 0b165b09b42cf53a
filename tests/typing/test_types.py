"""Runs mypy over the file that states the public types."""

from __future__ import annotations

from pathlib import Path

import mypy.api

_HERE = Path(__file__).parent


def test_public_types_are_exact(tmp_path: Path) -> None:
    file = _HERE / "public_types.py"
    config = _HERE.parents[1] / "pyproject.toml"
    found, complaint, status = mypy.api.run(
        ["--config-file", str(config), "--cache-dir", str(tmp_path), "--no-error-summary", str(file)]
    )
    assert (found, complaint, status) == ("", "", 0)


def test_wrong_use_of_the_public_types_is_found(tmp_path: Path) -> None:
    """What the file marks as wrong is wrong: without its marks mypy complains once for each."""
    text = (_HERE / "public_types.py").read_text(encoding="utf-8")
    wrong = [number for number, line in enumerate(text.splitlines(), 1) if "# type: ignore[" in line]
    file = tmp_path / "unmarked.py"
    file.write_text(text.replace("# type: ignore[", "# wrong: ["), encoding="utf-8")
    config = _HERE.parents[1] / "pyproject.toml"
    found, _, status = mypy.api.run(["--config-file", str(config), "--cache-dir", str(tmp_path), str(file)])
    complained = {int(line.split(":")[1]) for line in found.splitlines() if ": error:" in line}
    assert status == 1
    assert complained == set(wrong)
