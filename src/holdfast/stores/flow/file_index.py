"""The list of a flow's checkpoints in a file: one a line, the newest last, each with its id and when it was created.

A save adds a line, and so does a delete, which takes the one before back. A line that a crash has cut short names what
was never written, and is dropped by the next writer. A list that is damaged otherwise, or has no line at all, is made
anew from the checkpoints themselves.
"""

from __future__ import annotations

import errno
import json
import os
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.stores.files import sync_folder, write_whole

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_TAIL = 16384  # bytes, more than a line has
_BEGIN = b'{"gone": "", "sequence": 0}\n'  # of a list that was written anew: one that holds nothing has a line too
MOST_GONE = 256  # lines that take others back; then the list is written anew without all of them


class Entry(NamedTuple):
    """A line of a list."""

    id: str
    created_at: str
    sequence: int
    flow_id: str


class DamagedIndex(Exception):
    """A list cannot be read."""


def read_index(path: Path) -> list[Entry]:
    """Return the entries of a list. Raises ``DamagedIndex``, also if there is no file, or no line in it."""
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise DamagedIndex(str(path)) from error
    lines = content.split(b"\n")[:-1]  # what comes after the last line's end was cut short, or is being written
    if not lines:
        raise DamagedIndex(str(path))
    entries: dict[str, Entry] = {}
    try:
        for line in map(json.loads, lines):
            if "gone" in line:
                entries.pop(line["gone"], None)
            else:
                entry = Entry(**line)
                entries[entry.id] = entry
    except (ValueError, TypeError) as error:
        raise DamagedIndex(str(path)) from error
    return list(entries.values())


def add_to_index(path: Path, entry: Entry) -> None:
    """Add a line, durably. Only one writer at a time may do so."""
    _add(path, _line(entry), durably=True)


def take_from_index(path: Path, checkpoint_id: str) -> bool:
    """Add a line that takes another one back; return whether the list should be written anew without both.

    If a crash loses it, the list names what is not there, which is passed over.
    """
    tail = _last_lines(path)
    before = next((int(line.get("taken", 0)) for line in tail if "gone" in line), 0)
    gone = {"gone": checkpoint_id, "sequence": _sequence(tail), "taken": before + 1}
    _add(path, json.dumps(gone, ensure_ascii=False).encode() + b"\n", durably=False)
    return before + 1 >= MOST_GONE


def _line(entry: Entry) -> bytes:
    return json.dumps(entry._asdict(), ensure_ascii=False).encode() + b"\n"


def _add(path: Path, line: bytes, *, durably: bool) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        end = _end_of_lines(descriptor)
        os.ftruncate(descriptor, end)
        written = os.pwrite(descriptor, line, end)
        if written < len(line):  # a disk that fills up takes a part
            os.ftruncate(descriptor, end)
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        if durably:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if durably and not end:  # its name is new too
        sync_folder(path.parent)


def write_index(path: Path, entries: Iterable[Entry], temporary_id: str) -> None:
    """Put *entries* in the place of a list, durably."""
    write_whole(path, chain([_BEGIN], map(_line, entries)), temporary_id)


def last_sequence(path: Path) -> int:
    """Return the number in the last whole line; 0 without one."""
    return _sequence(_last_lines(path))


def _sequence(tail: Iterable[dict[str, Any]]) -> int:
    for line in tail:
        with suppress(ValueError, TypeError, KeyError):
            return int(line["sequence"])
    return 0


def _last_lines(path: Path) -> list[dict[str, Any]]:
    """Return what can be read of the last whole lines, the last one first."""
    lines = []
    with suppress(FileNotFoundError), path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
        for line in reversed(file.read().split(b"\n")[:-1]):
            with suppress(ValueError):
                lines.append(json.loads(line))
    return [line for line in lines if isinstance(line, dict)]


def _end_of_lines(descriptor: int) -> int:
    """Return where the last whole line ends."""
    size = os.fstat(descriptor).st_size
    begin = max(0, size - _TAIL)
    tail = os.pread(descriptor, size - begin, begin)
    return begin + tail.rfind(b"\n") + 1


__all__ = [
    "MOST_GONE",
    "DamagedIndex",
    "Entry",
    "add_to_index",
    "last_sequence",
    "read_index",
    "take_from_index",
    "write_index",
]
