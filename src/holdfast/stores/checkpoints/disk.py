"""The checkpoint store in a folder: a file a key.

A file's name is its key, encoded so that it can be read back and never leaves the folder; a key too long for a name is
hashed, and stands inside the file as every key does. A save writes a file of its own beside the others, has it on the
disk, and renames it: whoever loads sees the old bytes or the new ones, and never a part.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import struct
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar
from urllib.parse import unquote, unquote_to_bytes

from holdfast.core.texts import fits
from holdfast.errors import DamagedCheckpoint
from holdfast.model.world import RealWorld
from holdfast.stores.cancels import cancelled_after
from holdfast.stores.checkpoints.store import CheckpointStore, Limits, is_gzip
from holdfast.stores.files import (
    HASHED,
    alone_in,
    file_name,
    make_folder,
    remove_abandoned,
    sync_folder,
    write_whole,
)
from holdfast.stores.keys import LONGEST_KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.model.workflow import Duration
    from holdfast.model.world import World

P = ParamSpec("P")
T = TypeVar("T")

logger = logging.getLogger("holdfast.checkpoints")

FOLDER = ".holdfast_checkpoints"
SUFFIX = ".checkpoint"
_ABANDONED = 3600.0  # seconds: a file that was not renamed for so long was left by a writer that died
# What a file begins with: who wrote it, its form, whether it is gzip, the lengths of key and data, the SHA-256 of both.
_HEADER = struct.Struct(">8sBBIQ32s")
_MAGIC, _FORM = b"holdfast", 1


class DiskStorage(CheckpointStore):
    """Checkpoints in the folder *base_path*, by default ``.holdfast_checkpoints``; it is made when first needed.

    Safe for any number of tasks, threads and processes on one machine. ``DamagedCheckpoint`` says that a file is not
    what was written. With *max_bytes* or *max_entries* the least recently used go; with *max_age* what was not used for
    so long. The time of a file's last use is its access time, set by the store itself.
    """

    def __init__(
        self,
        base_path: str | os.PathLike[str] | None = None,
        *,
        max_bytes: int | None = None,
        max_entries: int | None = None,
        max_age: Duration | None = None,
        world: World | None = None,
    ) -> None:
        super().__init__(Limits.of(max_bytes, max_entries, max_age))
        self.base_path = Path(FOLDER if base_path is None else base_path)
        self._world: World = world or RealWorld()

    async def initialize(self) -> None:
        """Make the folder, and remove what was left in it by writers that died; a second call changes nothing."""
        await asyncio.to_thread(self._tidy)

    async def _save(self, key: str, data: bytes) -> None:
        await _written(self._write, key, data)

    async def _load(self, key: str) -> bytes | None:
        return await asyncio.to_thread(self._read, key)

    async def _delete(self, key: str) -> bool:
        return await _written(self._remove, self.base_path / file_name(key, SUFFIX))

    async def _keys(self, prefix: str) -> list[str]:
        return await asyncio.to_thread(self._listed, prefix)

    async def _prune(self, just_saved: str | None) -> int:
        return await _written(self._pruned, None if just_saved is None else file_name(just_saved, SUFFIX))

    def _tidy(self) -> None:
        make_folder(self.base_path)
        remove_abandoned(self.base_path, self._world.now() - _ABANDONED)

    def _write(self, key: str, data: bytes) -> None:
        make_folder(self.base_path)
        path = self.base_path / file_name(key, SUFFIX)
        placing = alone_in(self.base_path)  # nobody prunes between the look at what was there and this
        write_whole(path, _encoded(key, data), self._world.new_id(), finish=self._mark_used, placing=placing)

    def _read(self, key: str) -> bytes | None:
        path = self.base_path / file_name(key, SUFFIX)
        try:
            with path.open("rb") as file:
                content = file.read()
                self._mark_used(file.fileno())
        except FileNotFoundError:
            return None
        stored_key, data = _decoded(content, path)
        if stored_key != key:
            raise DamagedCheckpoint(f"The file {path} holds the checkpoint {stored_key!r}, not {key!r}: restore it.")
        return data

    def _mark_used(self, descriptor: int) -> None:
        modified = os.fstat(descriptor).st_mtime_ns
        with suppress(PermissionError):  # who may read the file of another user may not set its times
            os.utime(descriptor, ns=(int(self._world.now() * 1_000_000_000), modified))

    def _remove(self, path: Path) -> bool:
        try:
            path.unlink()
        except FileNotFoundError:
            return False
        sync_folder(self.base_path)
        return True

    def _listed(self, prefix: str) -> list[str]:
        keys = (_key_of(path) for path in self._files())
        return sorted(key for key in keys if key is not None and key.startswith(prefix))

    def _files(self) -> Iterator[Path]:
        if self.base_path.is_dir():
            yield from self.base_path.glob(f"*{SUFFIX}")

    def _pruned(self, first: str | None) -> int:
        """Remove what comes after a limit; one that is saved or loaded meanwhile stays."""
        gone = 0
        for path, seen in self._beyond(first):
            with alone_in(self.base_path), suppress(FileNotFoundError):  # deleted meanwhile
                status = path.stat()
                if (status.st_ino, status.st_atime_ns) == (seen.st_ino, seen.st_atime_ns):
                    path.unlink()
                    gone += 1
        if gone:
            sync_folder(self.base_path)
        return gone

    def _beyond(self, first: str | None) -> Iterator[tuple[Path, os.stat_result]]:
        """Walk from the most to the least recently used, *first* first, and yield what comes after a limit."""
        used: list[tuple[bool, int, str, int, os.stat_result]] = []
        for path in self._files():
            with suppress(FileNotFoundError):  # deleted meanwhile
                status = path.stat()
                size = max(0, status.st_size - _HEADER.size - _key_length(path))
                used.append((path.name == first, status.st_atime_ns, path.name, size, status))
        limits, bytes_kept = self._limits, 0
        too_old = None if limits.max_age_ms is None else self._world.now() * 1e9 - limits.max_age_ms * 1e6
        for place, (_, accessed, name, size, status) in enumerate(sorted(used, reverse=True), 1):
            bytes_kept += size
            if (
                (limits.max_entries is not None and place > limits.max_entries)
                or (limits.max_bytes is not None and bytes_kept > limits.max_bytes)
                or (too_old is not None and accessed < too_old)
            ):
                yield self.base_path / name, status


async def _written(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Do *work* on a thread, which goes on though its caller is cancelled: that comes after it.

    Else what the caller writes next could be overtaken by it.
    """
    return await cancelled_after(asyncio.to_thread(work, *args, **kwargs))


def _key_of(path: Path) -> str | None:
    name = path.name.removesuffix(SUFFIX)
    if not name.startswith(HASHED):
        key = unquote(name)
        return key if fits(key, LONGEST_KEY) and file_name(key, SUFFIX) == path.name else None  # somebody else's file
    try:
        return _decoded(path.read_bytes(), path)[0]
    except FileNotFoundError:  # deleted meanwhile
        return None
    except DamagedCheckpoint as damaged:
        logger.warning("%s Its key stands inside, so that it is left out of the list.", damaged)
        return None


def _key_length(path: Path) -> int:
    """Return how many bytes of a file are its key; it is read only where the name does not say."""
    name = path.name.removesuffix(SUFFIX)
    if not name.startswith(HASHED):
        return len(unquote_to_bytes(name))
    with path.open("rb") as file:
        header = file.read(_HEADER.size)
    return int(_HEADER.unpack(header)[3]) if len(header) == _HEADER.size else 0


def _encoded(key: str, data: bytes) -> tuple[bytes, bytes, bytes]:
    name = key.encode()
    checksum = hashlib.sha256(name + data).digest()
    return _HEADER.pack(_MAGIC, _FORM, is_gzip(data), len(name), len(data), checksum), name, data


def _decoded(content: bytes, path: Path) -> tuple[str, bytes]:
    """Return key and data of a file; raise ``DamagedCheckpoint`` if anything about it is wrong."""
    if len(content) < _HEADER.size:
        raise DamagedCheckpoint(f"The file {path} ends within its first {_HEADER.size} bytes: restore or delete it.")
    magic, form, _, key_length, data_length, checksum = _HEADER.unpack_from(content)
    body = content[_HEADER.size :]
    if (magic, form) != (_MAGIC, _FORM):
        raise DamagedCheckpoint(f"The file {path} is no checkpoint, or of a newer form: restore or delete it.")
    if len(body) != key_length + data_length:
        raise DamagedCheckpoint(
            f"The file {path} has {len(body)} bytes where {key_length + data_length} were written: restore it."
        )
    if hashlib.sha256(body).digest() != checksum:
        raise DamagedCheckpoint(f"The checksum of the file {path} is wrong: restore or delete it.")
    return body[:key_length].decode(), body[key_length:]


__all__ = ["FOLDER", "SUFFIX", "DiskStorage"]
