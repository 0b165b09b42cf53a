"""Statements of ours on a connection of Django, in the transaction it is in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import Error, connections  # type: ignore[import-untyped]
from django.db.backends.base.base import BaseDatabaseWrapper  # type: ignore[import-untyped]
from django.utils.connection import ConnectionProxy  # type: ignore[import-untyped]

from holdfast.db.meanings import MEANINGS
from holdfast.db.queries.foreign import adaptable, formatted
from holdfast.db.session import run_sync
from holdfast.errors import MisuseError
from holdfast.workflows.outbox.statements import Statements, refuse_other_kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.db.pipeline.operation import Values
    from holdfast.db.session import Row
    from holdfast.db.url import DialectName
    from holdfast.errors import DatabaseError
    from holdfast.workflows.engine.engine import Engine
    from holdfast.workflows.facts import EnqueueRuns


def fits(transaction: Any) -> bool:
    """Whether *transaction* is a connection of Django: ``django.db.connection``, or one of its ``connections``."""
    return isinstance(transaction, BaseDatabaseWrapper | ConnectionProxy)


def apply(engine: Engine, connection: Any, kind: EnqueueRuns, rows: Sequence[Values]) -> Sequence[Any]:
    """Write *rows* on a connection; ``MisuseError`` if it is in no transaction, or in one of another database."""
    if isinstance(connection, ConnectionProxy):
        connection = connections[connection.alias]
    dialect = engine.manager.dialect
    refuse_other_kind(connection.vendor, dialect)
    if connection.get_autocommit():
        raise MisuseError(
            f"enqueue_in() was given Django's connection {connection.alias!r}, which is in no transaction: call it "
            "inside `with transaction.atomic():`, together with your own writes."
        )
    statements: Any = _Statements(connection, dialect)
    run_sync(engine.premises.check_remembered(statements, {}, None))  # a connection lives for one request, as a rule
    return run_sync(kind.apply(statements, rows))


class _Statements(Statements):
    """On a connection, through its cursors."""

    errors = Error

    def __init__(self, connection: Any, dialect: DialectName) -> None:
        self._connection = connection
        self._dialect = dialect

    def run(self, sql: str, values: Sequence[Any]) -> tuple[list[Row], int]:
        spelled, places = formatted(sql, self._dialect)
        with self._connection.cursor() as cursor:
            cursor.execute(spelled, [adaptable(values[place]) for place in places])
            if cursor.description is None:
                return [], cursor.rowcount
            names = [column[0] for column in cursor.description]
            rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        return rows, len(rows)

    def meaning(self, error: Any) -> DatabaseError:
        return MEANINGS[self._dialect](error.__cause__ or error, "")


__all__ = ["apply", "fits"]
