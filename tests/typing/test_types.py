"""Runs mypy over the files that state the public types."""

from __future__ import annotations

from pathlib import Path

import mypy.api
import pytest

_HERE = Path(__file__).parent
_CONFIG = str(_HERE.parents[1] / "pyproject.toml")

EVERY_FILE = pytest.mark.parametrize(
    "name",
    [
        "enqueue_types.py",
        "message_types.py",
        "public_types.py",
        "schedule_types.py",
        "stream_types.py",
        "transaction_types.py",
    ],
)


@EVERY_FILE
def test_public_types_are_exact(name: str, tmp_path: Path) -> None:
    found, complaint, status = mypy.api.run(
        ["--config-file", _CONFIG, "--cache-dir", str(tmp_path), "--no-error-summary", str(_HERE / name)]
    )
    assert (found, complaint, status) == ("", "", 0)


@EVERY_FILE
def test_wrong_use_of_the_public_types_is_found(name: str, tmp_path: Path) -> None:
    """What the file marks as wrong is wrong: without its marks mypy complains once for each."""
    text = (_HERE / name).read_text(encoding="utf-8")
    wrong = [number for number, line in enumerate(text.splitlines(), 1) if "# type: ignore[" in line]
    file = tmp_path / "unmarked.py"
    file.write_text(text.replace("# type: ignore[", "# wrong: ["), encoding="utf-8")
    found, _, status = mypy.api.run(["--config-file", _CONFIG, "--cache-dir", str(tmp_path), str(file)])
    complained = {int(line.split(":")[1]) for line in found.splitlines() if ": error:" in line}
    assert status == 1
    assert complained == set(wrong)
