"""Peers from the package index, each in an environment of its own under build/, so that nothing of theirs is ours."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[2]


def peer(name: str, requirements: list[str], program: str, *arguments: str) -> list[dict[str, Any]]:
    """Run benchmarks/peers/*program* with *requirements* installed; return the JSON lines it printed."""
    python = _environment(name, requirements)
    done = subprocess.run(
        [str(python), str(_ROOT / "benchmarks" / "peers" / program), *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=600,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 and not lines:
        raise RuntimeError(f"{program} failed:\n{done.stderr[-2000:]}")
    return lines


def _environment(name: str, requirements: list[str]) -> Path:
    folder = _ROOT / "build" / "peers" / name
    python = folder / "bin" / "python"
    stamp = folder / "requirements.txt"
    wanted = "\n".join(requirements)
    if not stamp.exists() or stamp.read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *requirements], check=True)
        stamp.write_text(wanted)
    return python
