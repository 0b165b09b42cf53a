"""What a migration would do, as SQL text for a database's own command-line client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.db.queries.placeholders import placeholder
from holdfast.db.url import DialectName

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.db.migrations.files import Migration
    from holdfast.db.queries.queries import Call, Queries


def script(queries: Queries, pending: Iterable[tuple[Migration, Sequence[str]]]) -> str:
    """Return the text that applies *pending*, each with its statements, in order.

    The version is raised after a migration's statements: MariaDB/MySQL commit those one by one, so a
    script that ends early must not have raised it before.
    """
    names = ["migration_table_create", "migration_seed"]
    if queries.dialect is DialectName.POSTGRES:
        names.insert(0, "schema_create")
    lines = [text for name in names for text in _written(queries, name)]
    for migration, statements in pending:
        version = migration.version
        lines += ["", f"-- {migration.name}", "BEGIN;", *(f"{statement};" for statement in statements)]
        lines += _written(queries, "migration_claim", version=version, before=version - 1)
        lines += [*_written(queries, "migration_note", version=str(version)), "COMMIT;"]
    return "\n".join(lines) + "\n"


def _written(queries: Queries, name: str, **values: int | str) -> list[str]:
    return [f"{_with_values(call, queries.dialect)};" for call in queries[name].bind(values)]


def _with_values(call: Call, dialect: DialectName) -> str:
    """Write the values, numbers and versions as text, in the place of their placeholders."""
    text, values = call
    for number, value in enumerate(values, start=1):
        text = text.replace(placeholder(dialect, number), _literal(value), 1)
    return text.replace("%%", "%") if dialect is DialectName.MYSQL else text


def _literal(value: Any) -> str:
    return str(int(value)) if isinstance(value, int) else f"'{int(value)}'"


__all__ = ["script"]
