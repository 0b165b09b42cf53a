"""Files that are whole or not there, under names that hold any key and never leave their folder."""

from __future__ import annotations

import hashlib
import os
from contextlib import contextmanager, nullcontext, suppress
from math import inf
from typing import TYPE_CHECKING, Any

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

TEMPORARY = ".tmp"
HASHED = "~"  # what the name of a key begins with that is too long for a name of its own
_LONGEST_NAME = 200  # bytes; file systems take 255
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_")


def file_name(key: str, suffix: str) -> str:
    """Return the name of the file of *key*: letters in lower case, digits, ``-``, ``_``, and %xx for all else.

    Capital letters are encoded too: some file systems do not tell them from small ones. A key too long for a name is
    hashed; the file must say inside whose it is.
    """
    name = key
    if not _PLAIN.issuperset(coded := key.encode()):
        name = "".join(chr(byte) if byte in _PLAIN else f"%{byte:02x}" for byte in coded)
    if len(name) > _LONGEST_NAME:
        name = HASHED + hashlib.sha256(key.encode()).hexdigest()
    return name + suffix


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Have a folder to oneself among all threads and processes of this machine that ask for it so; wait for the others.

    The lock is given back, and not only closed: a child that another thread forks meanwhile has it open, too.
    """
    descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def write_whole(
    path: Path,
    parts: Iterable[bytes],
    temporary_id: str,
    *,
    finish: Callable[[int], None] | None = None,
    placing: AbstractContextManager[Any] | None = None,
) -> None:
    """Put *parts* into the file at *path*, durably: a reader sees the old content or all of the new.

    *temporary_id* is one no other writer of this process has. *finish* is called with the descriptor of what is
    written, before it is on the disk; *placing* is entered while it gets its name. On an error, a full disk too, the
    old content stays.
    """
    temporary = path.with_name(f".{temporary_id}{os.getpid()}{TEMPORARY}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "wb") as file:  # noqa: PTH123 -- a descriptor
            file.writelines(parts)
            file.flush()
            if finish is not None:
                finish(file.fileno())
            os.fsync(file.fileno())
        with placing or nullcontext():
            temporary.rename(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def remove_abandoned(folder: Path, before: float = inf) -> None:
    """Remove what writers that died before that moment have left in a folder; all of it if nobody writes there now."""
    for path in folder.glob(f".*{TEMPORARY}"):
        with suppress(FileNotFoundError):  # its writer has just renamed it
            if path.stat().st_mtime < before:
                path.unlink()


def make_folder(folder: Path) -> None:
    """Make a folder that only its owner may read, durably; nothing if it is there."""
    if not folder.is_dir():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


__all__ = [
    "HASHED",
    "TEMPORARY",
    "alone_in",
    "file_name",
    "make_folder",
    "remove_abandoned",
    "sync_folder",
    "write_whole",
]
