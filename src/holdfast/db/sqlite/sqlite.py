"""SQLite through the interpreter's own ``sqlite3``: one connection, and what its errors mean to us.

WAL with one writer and many readers; ``synchronous=FULL`` unless asked otherwise, so that a commit that returned is on
the disk. Locks are waited for here, by looking again every millisecond: SQLite's own busy handler sleeps up to 100 ms
between looks and can starve beside a busy writer.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from stat import S_ISDIR
from typing import TYPE_CHECKING, Any
from uuid import UUID

from holdfast.db.queries.placeholders import brief, is_read
from holdfast.db.sqlite.checkpoint import KEPT_BYTES, Checkpointer
from holdfast.db.sqlite.file import OpenFile
from holdfast.db.sqlite.forks import forks
from holdfast.errors import Conflict, DatabaseError, QueryFailed, Retryable, TooLong, Unavailable, UnknownCommit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.db.session import Row
    from holdfast.db.settings import Settings

logger = logging.getLogger("holdfast.db")

_CONFLICTS = {sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_ROWID}
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_DISK = {
    sqlite3.SQLITE_FULL: "The disk is full; nothing was written. It is tried again: free some space",
    sqlite3.SQLITE_IOERR: "SQLite cannot read or write its file; check the disk and its free space",
}
_BEGIN = "BEGIN IMMEDIATE"
_WAITS = {"FULL", "EXTRA"}  # the levels at which a commit in the log waits for the disk
_LOOK_AGAIN = 0.001
_NATIVE = {str, int, float, bytes, bool, type(None)}
CHECKPOINT_RACE_MENDED = (3, 51, 3)


class _DiskTrouble(Retryable):
    """The disk is full or does not answer: not the statement's fault, and it may pass."""


class SqliteConnection:
    """One connection, to *file* if it is to one; a writer's has a *checkpointer*, and writes to no file that is gone.

    It is used by one thread at a time; *in_use* says so to ``forks.py``.
    """

    def __init__(
        self,
        raw: sqlite3.Connection,
        busy_timeout: float,
        checkpointer: Checkpointer | None = None,
        synchronous: str = "FULL",
        file: OpenFile | None = None,
    ) -> None:
        self._raw = raw
        self.file = file
        self.in_use = threading.Lock()
        self._written = None if checkpointer is None else file
        self._busy_timeout = busy_timeout
        self._keeps_waiting = _always
        self._checkpointer = checkpointer
        self._synchronous = synchronous
        self.waits_for_disk = True  # whether the next transaction is on the disk when its commit returns
        self._waits_now = True
        self._log_may_have_grown = True

    @property
    def in_transaction(self) -> bool:
        return self._raw.in_transaction

    def execute(self, sql: str, args: Sequence[Any]) -> int:
        with self.in_use:
            alone = not self._raw.in_transaction
            cursor = self._run(sql, args)
            rows = 0 if cursor.description is None else len(self._all(cursor, sql, alone=alone))
        return max(cursor.rowcount, rows)

    def write_alone(self, sql: str, args: Sequence[Any]) -> bool:
        """Run a statement that commits by itself, waiting for nobody; False if it failed, or may have.

        Whoever calls this calls ``keep_log_short`` now and then.
        """
        self._log_may_have_grown = True
        if self._written is not None and not self._written.is_there:
            return False
        try:
            with self.in_use:
                self._raw.execute(sql, args)
        except (sqlite3.Error, OverflowError, ValueError):
            return False
        return True

    def fetch(self, sql: str, args: Sequence[Any]) -> list[Row]:
        with self.in_use:
            alone = not self._raw.in_transaction
            cursor = self._run(sql, args)
            if cursor.description is None:
                return []
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in self._all(cursor, sql, alone=alone)]

    def begin(self) -> None:
        with self.in_use:
            self._run(_BEGIN, ())

    def commit(self) -> None:
        if self._written is not None:
            self._written.refuse_if_gone()
        try:
            with self.in_use:
                self._run("COMMIT", ())
        except (QueryFailed, _DiskTrouble) as error:
            # An I/O error or a full disk at COMMIT: whether the last frame reached the file is for the file to say.
            raise UnknownCommit(f"SQLite could not finish the commit; it may or may not be there: {error}") from error

    def commit_after(self, sql: str, args: Sequence[Any]) -> bool:
        """Run a last statement and commit, unless it touches no row; return whether it did."""
        if not self.execute(sql, args):
            return False
        if self._raw.in_transaction:  # if not, it was the only statement, and has committed by itself
            self.commit()
        return True

    def rollback(self) -> None:
        if self._raw.in_transaction:
            with self.in_use:
                self._run("ROLLBACK", ())

    def begin_turn(self, keeps_waiting: Callable[[], bool] | None = None) -> None:
        """Undo what somebody may have left open whose turn was interrupted.

        From now on, whoever finds the file locked waits no longer than *keeps_waiting* says, if it is given.
        """
        self._keeps_waiting = keeps_waiting or _always
        self.rollback()

    def close(self) -> None:
        with self.in_use:
            self.close_inherited()

    def close_inherited(self) -> None:
        self._raw.close()
        if self._checkpointer is not None:
            self._checkpointer.close()

    def keep_log_short(self) -> None:
        """Move the log into the file if it has grown; at the end of a turn, when those who waited have been told."""
        with self.in_use:
            self._keep_log_short()

    def _keep_log_short(self) -> None:
        if self._log_may_have_grown and self._checkpointer is not None and not self._raw.in_transaction:
            self._log_may_have_grown = False
            self._checkpointer.after_commit(self._raw)

    @staticmethod
    def _all(cursor: sqlite3.Cursor, sql: str, *, alone: bool) -> list[Any]:
        """Read all rows: a statement that returns some is not over, and has not committed, before the last is read."""
        try:
            return cursor.fetchall()
        except sqlite3.Error as error:
            raise _meaning_alone(error, sql) if alone else meaning(error, sql) from error

    def _run(self, sql: str, args: Sequence[Any]) -> sqlite3.Cursor:
        values = args if _NATIVE.issuperset(map(type, args)) else [_outgoing(value) for value in args]
        deadline = 0.0
        alone = not self._raw.in_transaction
        if alone:
            self._keep_log_short()  # after the last commit, if this turn has made several
        if alone and self._written is not None and sql is not _BEGIN:
            self._written.refuse_if_gone()
        self._log_may_have_grown = True
        while True:
            try:
                if alone and self.waits_for_disk is not self._waits_now:
                    self._set_waiting()
                return self._raw.execute(sql, values)
            except sqlite3.OperationalError as error:
                if alone and _may_have_committed(error, sql):
                    raise _meaning_alone(error, sql) from error
                if (error.sqlite_errorcode & 0xFF) not in _BUSY or (self._raw.in_transaction and sql != "COMMIT"):
                    raise meaning(error, sql) from error
                now = time.monotonic()
                deadline = deadline or now + self._busy_timeout
                if now >= deadline or not self._keeps_waiting():
                    waited = self._busy_timeout - max(0.0, deadline - now)
                    raise Retryable(
                        "The SQLite file was locked by another connection, of another process or of this one, for "
                        f"{waited:g} s: {brief(sql)}"
                    ) from error
                time.sleep(_LOOK_AGAIN)
            except (sqlite3.Error, OverflowError, ValueError) as error:
                raise meaning(error, sql) from error

    def _set_waiting(self) -> None:
        """Have it as ``waits_for_disk`` says; only between transactions, and before one that must wait may begin."""
        if self._synchronous in _WAITS:
            self._raw.execute(f"PRAGMA synchronous = {self._synchronous if self.waits_for_disk else 'NORMAL'}")
        self._waits_now = self.waits_for_disk


class SqliteSession:
    """The asynchronous face of a connection for code that runs on its thread: it never waits."""

    usable = True

    def __init__(self, connection: SqliteConnection) -> None:
        self._connection = connection

    @property
    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    async def execute(self, sql: str, args: Sequence[Any]) -> int:
        return self._connection.execute(sql, args)

    async def fetch(self, sql: str, args: Sequence[Any]) -> list[Row]:
        return self._connection.fetch(sql, args)

    async def begin(self, isolation: str | None = None, *, with_next: bool = False) -> None:  # noqa: ARG002 -- SQLite is always serializable, and there is no trip to be spared
        self._connection.begin()

    async def commit(self) -> None:
        self._connection.commit()

    async def rollback(self) -> None:
        self._connection.rollback()

    async def close(self) -> None:
        self._connection.close()


def _always() -> bool:
    return True


def meaning(error: Exception, sql: str) -> DatabaseError:
    """Classify an error that SQLite raised for a statement."""
    code = getattr(error, "sqlite_errorcode", 0)
    text = f"{error}: {brief(sql)}"
    if code in _CONFLICTS:
        return Conflict(f"A row with this key is already there ({error}): {brief(sql)}")
    if code == sqlite3.SQLITE_CONSTRAINT_CHECK and str(error).endswith("_too_long"):
        return TooLong(f"A value is longer than its column holds; it was refused, not cut: {text}")
    if code & 0xFF == sqlite3.SQLITE_TOOBIG or isinstance(error, sqlite3.DataError):
        return TooLong(f"A value is longer than SQLite holds; it was refused, not cut: {text}")
    if code & 0xFF in _BUSY:
        return Retryable(f"SQLite asks to try again: {text}")
    if code & 0xFF in _DISK:
        return _DiskTrouble(f"{_DISK[code & 0xFF]}: {text}")
    return QueryFailed(f"SQLite refused the statement: {text}")


def _meaning_alone(error: sqlite3.Error, sql: str) -> DatabaseError:
    """Classify an error of a lone statement, which commits by itself."""
    if _may_have_committed(error, sql):
        return UnknownCommit(f"{_DISK[sqlite3.SQLITE_IOERR]}; it may be written: {brief(sql)}")
    return meaning(error, sql)


def _may_have_committed(error: sqlite3.Error, sql: str) -> bool:
    """Whether a lone statement failed where it may have been committing."""
    return error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_IOERR and sql != _BEGIN and not is_read(sql)


def _outgoing(value: Any) -> Any:
    """Store times as ISO-8601 text in UTC, and what else SQLite has no type for as its exact text."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat() if value.tzinfo else value.isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal | UUID):
        return str(value)
    return value


def opener(
    settings: Settings, checkpointer: Checkpointer | None = None, *, shared: bool = False
) -> Callable[[], SqliteConnection]:
    """Return the function that opens a connection for the calling thread, or *shared* by threads that take turns."""
    path = settings.url.path or ":memory:"

    def connect() -> SqliteConnection:
        try:
            raw = sqlite3.connect(
                path, timeout=0, isolation_level=None, cached_statements=256, check_same_thread=not shared
            )
        except sqlite3.OperationalError as error:
            raise Unavailable(f"SQLite cannot open {path}: {_why_not(Path(path))}.") from error
        file = None if settings.url.path is None else OpenFile(path)
        connection = SqliteConnection(raw, settings.busy_timeout, checkpointer, settings.synchronous, file)
        try:
            if file is not None:
                forks.refuse_left_open(file)
                forks.tell(connection)
            _prepare(connection, settings)
            connection.keep_log_short()
        except BaseException:
            connection.close()
            raise
        return connection

    return connect


def _why_not(file: Path) -> str:
    """Say what is wrong with a file that cannot be opened, and what to do."""
    try:
        if S_ISDIR(file.stat().st_mode):
            return "it is a folder, name a file in it"
    except (FileNotFoundError, NotADirectoryError):
        if not file.parent.is_dir():
            return f"the folder {file.parent} does not exist, create it"
    except OSError as error:  # of one of its folders, or of the path itself
        return f"{error.strerror}, so check its path and the permissions of its folders"
    return "check its permissions"


def _prepare(connection: SqliteConnection, settings: Settings) -> None:
    try:
        if settings.page_bytes is not None:
            connection.execute(f"PRAGMA page_size = {settings.page_bytes}", ())
        if settings.url.path is not None:
            connection.fetch("PRAGMA journal_mode = WAL", ())
        connection.execute(f"PRAGMA synchronous = {settings.synchronous}", ())
        connection.execute("PRAGMA foreign_keys = ON", ())
        connection.execute("PRAGMA mmap_size = 0", ())
        connection.execute("PRAGMA wal_autocheckpoint = 0", ())
        connection.execute(f"PRAGMA journal_size_limit = {KEPT_BYTES}", ())
    except QueryFailed as error:
        raise Unavailable(
            f"{settings.url.safe} cannot be used as a SQLite database: {error}. Check that the file is one, and that "
            "it and its folder may be written to."
        ) from error


@cache
def warn_of_old_library(path: str) -> None:
    """Say once for each file that this SQLite can damage a WAL file if another program checkpoints it meanwhile."""
    if sqlite3.sqlite_version_info < CHECKPOINT_RACE_MENDED:
        logger.warning(
            "SQLite %s can damage a WAL database when two programs checkpoint it at once (mended in 3.51.3). "
            "Holdfast processes take turns; do not let other programs write to %s.",
            sqlite3.sqlite_version,
            path,
        )
