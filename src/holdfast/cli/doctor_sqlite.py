"""What a SQLite file and its surroundings mean for durable runs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from holdfast.cli.findings import Finding, Level, judged
from holdfast.db.sqlite.sqlite import CHECKPOINT_RACE_MENDED

if TYPE_CHECKING:
    from pathlib import Path

_LONGEST_LOG = 256 * 1024 * 1024
_SYNCHRONOUS = {0: "OFF", 1: "NORMAL", 2: "FULL", 3: "EXTRA"}


def library_finding(version: str) -> Finding:
    """Judge the SQLite that this interpreter has."""
    return judged(
        "SQLite version",
        version,
        ok=tuple(map(int, version.split("."))) >= CHECKPOINT_RACE_MENDED,
        remedy=(
            "Before 3.51.3 a file can be damaged when two programs checkpoint it at once. Our processes take turns: "
            "let no other program write to the file, and use a Python with a newer SQLite where you can."
        ),
        level=Level.ADVICE,
    )


def file_findings(path: Path, journal_mode: str, synchronous: int) -> list[Finding]:
    """Judge the file, its folder, and how a connection of ours found it."""
    return [
        _access(path),
        judged(
            "journal_mode",
            journal_mode,
            ok=journal_mode == "wal",
            remedy="The file cannot be put into WAL, so readers and the writer block each other: use a local disk.",
        ),
        judged(
            "synchronous",
            _SYNCHRONOUS.get(synchronous, str(synchronous)),
            ok=synchronous >= 2,
            remedy="An acknowledged write may be lost when the power fails: use synchronous=FULL.",
        ),
        _log(path),
    ]


def _access(path: Path) -> Finding:
    folder = path.absolute().parent
    closed = [str(each) for each in (folder, path) if not os.access(each, os.W_OK)]
    return judged(
        "file",
        "writable" if not closed else f"not writable: {', '.join(closed)}",
        ok=not closed,
        remedy="SQLite writes to the file and makes others beside it: let this user write to the file and its folder.",
    )


def _log(path: Path) -> Finding:
    log = path.with_name(f"{path.name}-wal")
    size = log.stat().st_size if log.exists() else 0
    return judged(
        "write-ahead log",
        f"{size} bytes" if size else "empty",
        ok=size <= _LONGEST_LOG,
        remedy="A reader that never ends keeps the log from being moved into the file: find and close it.",
    )


__all__ = ["file_findings", "library_finding"]
