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
# What a log that begins anew keeps of its file. More than it grows to between two checkpoints: a commit that grows the
# file waits longer for the disk than one that writes over what is there.
KEPT_BYTES = 3 * _WAL_BYTES // 2
_HEADER, _FRAME_HEADER = 32, 24  # bytes of the log, and of each page in it
_INSIST_MS = 100


class Checkpointer:
    """Keeps the log of the file at *path* short; call ``after_commit`` on the writer's thread, ``close`` with it."""

    def __init__(self, path: str) -> None:
        self._path = os.path.realpath(path)  # SQLite puts its log beside the file, not beside a link to it
        self._due = _WAL_BYTES
        self._log: int | None = None

    def after_commit(self, connection: sqlite3.Connection) -> None:
        """Checkpoint if the log has grown and no other process is doing so.

        Never raises: the commit stands, whatever becomes of the log.
        """
        try:
            if not self._reaches(self._due):
                return
            done = self.run(connection, insist=self._reaches(2 * _WAL_BYTES))
            self._due = _WAL_BYTES
            while not done and self._reaches(self._due):  # a long reader holds it: again when it has grown
                self._due += _WAL_BYTES
        except (OSError, sqlite3.Error) as error:
            self._due += _WAL_BYTES
            logger.warning("The write-ahead log of %s could not be moved into it: %s", self._path, error)

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

    def close(self) -> None:
        """Let the log go: with the last connection it is deleted. The next commit looks at the one there is then."""
        log, self._log = self._log, None
        if log is not None:
            os.close(log)

    def _reaches(self, length: int) -> bool:
        """Return whether the log is longer than *length* bytes.

        Its file may be longer than the log, which then ends where pages begin that have the salt of an older one.
        SQLite has no lock on this file, which closing it would give up.
        """
        if self._log is None:
            try:
                self._log = os.open(f"{self._path}-wal", os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:  # nothing was written yet
                return False
        header = os.pread(self._log, _HEADER, 0)
        frame = _FRAME_HEADER + int.from_bytes(header[8:12], "big")
        salt = os.pread(self._log, 8, _HEADER + length // frame * frame + 8)
        return bool(salt) and salt == header[16:24]
