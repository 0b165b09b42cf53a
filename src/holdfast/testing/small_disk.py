"""A small file system of a test's own, which can be filled up: a tmpfs. It takes privileges to mount one."""

from __future__ import annotations

import errno
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.testing.servers.account import base_folder
from holdfast.testing.skips import SkipReason, skip

if TYPE_CHECKING:
    from io import FileIO
    from typing import Self

_PIECES = (1 << 20, 1 << 12, 1)  # the last bytes of a file system are to be had in small pieces only


class SmallDisk:
    """A file system of so many *megabytes*, as a ``with`` block; entering it skips the test where it is not allowed.

    Whatever uses it must have ended before the block does.
    """

    def __init__(self, megabytes: int) -> None:
        self._megabytes = megabytes
        self.folder = Path()

    @property
    def _ballast(self) -> Path:
        return self.folder / "ballast"

    def fill(self) -> None:
        """Leave no room."""
        with self._ballast.open("ab", buffering=0) as file:
            for size in _PIECES:
                _pour(file, size)

    def free(self) -> None:
        """Make room again."""
        self._ballast.unlink()

    def __enter__(self) -> Self:
        folder = Path(tempfile.mkdtemp(prefix="hf-", dir=base_folder()))
        size = f"size={self._megabytes}m,mode=755"
        mount = ["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(folder)]
        if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
            folder.rmdir()
            skip(SkipReason.NO_SMALL_DISK)
        self.folder = folder
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", "--lazy", str(self.folder)], check=True)
        self.folder.rmdir()


def _pour(file: FileIO, size: int) -> None:
    try:
        while file.write(bytes(size)):
            pass
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
