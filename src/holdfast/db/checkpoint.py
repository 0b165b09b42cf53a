"""Moving SQLite's write-ahead log into the database file, by one process at a time.

SQLite before 3.51.3 can damage the file when two connections checkpoint at once, so automatic checkpoints are off
and the writer checkpoints here, after a commit, under a lock file that all Holdfast processes share.
"""

from __future__ import annotations

import logging
import os
import sqlite3

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger("holdfast.db")

_WAL_BYTES = 4 * 1024 * 1024


class Checkpointer:
    """Keeps the log of the file at *path* short; call ``after_commit`` on the writer's thread."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._due = _WAL_BYTES

    def after_commit(self, connection: sqlite3.Connection) -> None:
        """Checkpoint if the log has grown and no other process is doing so. Never raises: the commit stands."""
        size = self._log_size()
        if size <= _WAL_BYTES:
            self._due = _WAL_BYTES
        elif size >= self._due:
            self._due = size + _WAL_BYTES  # a log held by a reader is not looked at again before it has grown
            try:
                self.run(connection)
            except (OSError, sqlite3.Error) as error:
                logger.warning("The write-ahead log of %s could not be moved into it: %s", self._path, error)

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
