"""Peers from the package index, each in an environment of its own under build/, so that nothing of theirs is ours."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

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


class Conversation:
    """A peer that is told what to do next, so that it can take turns with others: a JSON line in, a JSON line out."""

    def __init__(self, told: IO[str], says: IO[str]) -> None:
        self._told = told
        self._says = says

    def ask(self, **what: Any) -> dict[str, Any]:
        """Have one thing done and return what is said of it."""
        self._told.write(json.dumps(what) + "\n")
        self._told.flush()
        for line in self._says:
            if line.startswith("{"):
                said: dict[str, Any] = json.loads(line)
                return said
        raise RuntimeError(f"The peer has ended at {what}.")


@contextmanager
def conversing(name: str, requirements: list[str], program: str, *arguments: str) -> Iterator[Conversation]:
    """Run benchmarks/peers/*program* as a peer that takes turns, until the block ends."""
    python = _environment(name, requirements)
    command = [str(python), str(_ROOT / "benchmarks" / "peers" / program), *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield Conversation(process.stdin, process.stdout)
        finally:
            process.stdin.close()


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
