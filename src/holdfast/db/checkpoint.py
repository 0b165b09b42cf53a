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
# What a log that begins anew keeps of its file. Nearly all: a commit that grows the file waits longer for the disk than
# one that writes over what is there. Less than a checkpoint is due at: the size of the file tells that it has grown.
KEPT_BYTES = 7 * _WAL_BYTES // 8
_INSIST_MS = 100


class Checkpointer:
    """Keeps the log of the file at *path* short; call ``after_commit`` on the writer's thread."""

    def __init__(self, path: str) -> None:
        self._path = os.path.realpath(path)  # SQLite puts its log beside the file, not beside a link to it
        self._due = _WAL_BYTES

    def after_commit(self, connection: sqlite3.Connection) -> None:
        """Checkpoint if the log has grown and no other process is doing so.

        Never raises: the commit stands, whatever becomes of the log.
        """
        size = self._log_size()
        if size < self._due:
            return
        try:
            done = self.run(connection, insist=size >= 2 * _WAL_BYTES)
        except (OSError, sqlite3.Error) as error:
            done = False
            logger.warning("The write-ahead log of %s could not be moved into it: %s", self._path, error)
        # A log that a long reader holds is looked at again when it has grown as much again.
        self._due = _WAL_BYTES if done else size + _WAL_BYTES

    def run(self, connection: sqlite3.Connection, *, insist: bool = False) -> bool:
        """Checkpoint now; False when another process has the turn, or readers kept some of the log.

        It waits for nobody, unless told to *insist*: readers that follow one another without a gap would keep the log
        from ever beginning anew, so the writer then waits a moment for those that read now.
        """
        lock = os.open(f"{self._path}-checkpoint", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if fcntl is not None:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            connection.execute(f"PRAGMA busy_timeout = {_INSIST_MS if insist else 0}").fetchall()
            mode = "RESTART" if insist else "PASSIVE"
            [(busy, pages, moved)] = connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchall()
        except BlockingIOError:
            return False
        finally:
            connection.execute("PRAGMA busy_timeout = 0").fetchall()
            os.close(lock)
        return not busy and bool(pages == moved)

    def _log_size(self) -> int:
        try:
            return os.stat(f"{self._path}-wal").st_size  # noqa: PTH116 -- on the write path, without a Path object
        except FileNotFoundError:
            return 0
