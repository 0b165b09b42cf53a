"""Counting what this process sends to its database: statements, and BEGIN and COMMIT where they are sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.db.mysql import mysql
from holdfast.db.postgres import postgres
from holdfast.db.sqlite import sqlite

if TYPE_CHECKING:
    from collections.abc import Callable


def counted() -> list[int]:
    """Count from now on, for the rest of the process; the one number in the list goes up."""
    count = [0]
    for kind in (postgres.PostgresSession, mysql.MySQLSession, sqlite.SqliteConnection):
        _count(kind, count)
    return count


def _count(kind: Any, count: list[int]) -> None:
    for name in ("execute", "fetch", "begin", "commit"):
        send: Callable[..., Any] = getattr(kind, name)

        def counting(self: Any, *args: Any, _send: Callable[..., Any] = send, **kwargs: Any) -> Any:
            count[0] += 1
            return _send(self, *args, **kwargs)

        setattr(kind, name, counting)
