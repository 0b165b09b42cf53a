"""Run a command whose temporary files are in memory, if this machine has room for them there.

    python tools/in_memory.py COMMAND [WORD...]

A run of the tests makes and removes databases by the thousand, and on a disk much of its time goes into their files. In
memory they outlive the kill of a process or a server as they do on a disk; that a disk outlives the machine is shown by
no test. Who has set TMPDIR keeps it. The folder is removed when the command has ended, and its exit code is ours.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

_MEMORY = Path("/dev/shm")  # noqa: S108 -- mkdtemp below it
_ROOM = 8 << 30


def has_room(folder: Path, wanted: int = _ROOM) -> bool:
    """Say whether *folder* can be written to and has *wanted* bytes free, both itself and as memory of the machine."""
    if not os.access(folder, os.W_OK | os.X_OK):
        return False
    return min(shutil.disk_usage(folder).free, _available()) >= wanted


def _available() -> int:
    """Return the memory that the machine can give, in bytes: what is free, and what only keeps files at hand."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, _, size = line.partition(":")
        if name == "MemAvailable":
            return int(size.split()[0]) << 10
    return 0


def run(command: list[str], memory: Path | None) -> int:
    """Run *command* to its end with its temporary files in a folder below *memory*; None leaves them where they are."""
    if memory is None:
        return subprocess.run(command, check=False).returncode
    with tempfile.TemporaryDirectory(prefix="hf-", dir=memory, ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o711)  # servers run under accounts of their own
        return subprocess.run(command, env={**os.environ, "TMPDIR": folder}, check=False).returncode


if __name__ == "__main__":
    _fits = "TMPDIR" not in os.environ and has_room(_MEMORY)
    sys.exit(run(sys.argv[1:], _MEMORY if _fits else None))
