"""What the errors of a database mean, for statements on connections that are not ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.db.mysql import mysql
from holdfast.db.postgres import postgres
from holdfast.db.sqlite import sqlite
from holdfast.db.url import DialectName

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holdfast.errors import DatabaseError

MEANINGS: Mapping[DialectName, Callable[[Exception, str], DatabaseError]] = {
    DialectName.POSTGRES: postgres.meaning,
    DialectName.MYSQL: mysql.meaning,
    DialectName.SQLITE: sqlite.meaning,
}

__all__ = ["MEANINGS"]
