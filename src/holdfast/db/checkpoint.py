"""Moving SQLite's write-ahead log into the database file, by one process at a time.

SQLite before 3.51.3 can damage the file when two connections checkpoint at once, so automatic checkpoints are off
and the writer checkpoints here, after a commit, under a lock file that all Holdfast processes share.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    import sqlite3

_EVERY_COMMITS = 64
_WAL_BYTES = 4 * 1024 * 1024


class Checkpointer:
    """Keeps the log of the file at *path* short; call ``after_commit`` on the writer's thread."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._commits = 0

    def after_commit(self, connection: sqlite3.Connection) -> None:
        """Checkpoint if the log has grown and no other process is doing so."""
        self._commits += 1
        if self._commits % _EVERY_COMMITS == 0 and self._log_size() > _WAL_BYTES:
            self.run(connection)

    def run(self, connection: sqlite3.Connection) -> bool:
        """Checkpoint now; False when another process has the turn."""
        lock = os.open(f"{self._path}-checkpoint", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if fcntl is not None:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # PASSIVE waits for nobody: readers keep their snapshot and the next turn moves the rest.
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        except BlockingIOError:
            return False
        finally:
            os.close(lock)
        return True

    def _log_size(self) -> int:
        try:
            return os.stat(f"{self._path}-wal").st_size  # noqa: PTH116 -- on the write path, without a Path object
        except FileNotFoundError:
            return 0
