"""The list of a flow's checkpoints in a file: one a line, the newest last, each with its id and when it was created.

A save adds a line. A line that a crash has cut short names what was never written, and is dropped by the next writer.
A list that is damaged otherwise is made anew from the checkpoints themselves.
"""

from __future__ import annotations

import errno
import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from holdfast.stores.files import write_whole

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_TAIL = 16384  # bytes, more than a line has


class Entry(NamedTuple):
    """A line of a list."""

    id: str
    created_at: str
    sequence: int
    flow_id: str


class DamagedIndex(Exception):
    """A list cannot be read."""


def read_index(path: Path) -> list[Entry]:
    """Return the entries of a list, none if there is no file. Raises ``DamagedIndex``."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    lines = content.split(b"\n")[:-1]  # what comes after the last line's end was cut short, or is being written
    try:
        entries = [Entry(**json.loads(line)) for line in lines]
    except (ValueError, TypeError) as error:
        raise DamagedIndex(str(path)) from error
    return list({entry.id: entry for entry in entries}.values())


def add_to_index(path: Path, entry: Entry) -> None:
    """Add a line, durably. Only one writer at a time may do so."""
    line = json.dumps(entry._asdict(), ensure_ascii=False).encode() + b"\n"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        end = _end_of_lines(descriptor)
        os.ftruncate(descriptor, end)
        written = os.pwrite(descriptor, line, end)
        if written < len(line):  # a disk that fills up takes a part
            os.ftruncate(descriptor, end)
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_index(path: Path, entries: Iterable[Entry], temporary_id: str) -> None:
    """Put *entries* in the place of a list, durably."""
    lines = (json.dumps(entry._asdict(), ensure_ascii=False).encode() + b"\n" for entry in entries)
    write_whole(path, lines, temporary_id)


def last_sequence(path: Path) -> int:
    """Return the number in the last whole line; 0 without one."""
    with suppress(FileNotFoundError), path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
        for line in reversed(file.read().split(b"\n")[:-1]):
            with suppress(ValueError, TypeError, KeyError):
                return int(json.loads(line)["sequence"])
    return 0


def _end_of_lines(descriptor: int) -> int:
    """Return where the last whole line ends."""
    size = os.fstat(descriptor).st_size
    begin = max(0, size - _TAIL)
    tail = os.pread(descriptor, size - begin, begin)
    return begin + tail.rfind(b"\n") + 1


__all__ = ["DamagedIndex", "Entry", "add_to_index", "last_sequence", "read_index", "write_index"]
