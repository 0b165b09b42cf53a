"""Names of tables, schemas and columns: the only thing ever put into SQL text that is not a parameter.

A name is refused unless it is made of ASCII letters, digits and underscores, so nothing a caller hands over
can end the quotes it is put into.
"""

from __future__ import annotations

import re

from holdfast.db.url import DialectName
from holdfast.errors import InvalidIdentifier

_ALLOWED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_QUOTES = {DialectName.SQLITE: '"', DialectName.POSTGRES: '"', DialectName.MYSQL: "`"}

# PostgreSQL cuts a longer name silently, so two names could become one; SQLite has no limit of its own.
LONGEST = {DialectName.SQLITE: 128, DialectName.POSTGRES: 63, DialectName.MYSQL: 64}


def check_identifier(name: str, dialect: DialectName, what: str = "table") -> str:
    """Return *name* if it may stand in SQL as the name of a *what*; raise InvalidIdentifier if not.

    A name with anything unusual in it is not repeated in the message, which may end up in a log.
    """
    if _ALLOWED.fullmatch(name) is None:
        raise InvalidIdentifier(
            f"The name of the {what} ({len(name)} characters) is not allowed: use ASCII letters, digits and"
            " underscores, not beginning with a digit."
        )
    if len(name) > LONGEST[dialect]:
        raise InvalidIdentifier(
            f"The name of the {what} is too long: {name[:24]}... has {len(name)} characters, {dialect} takes"
            f" {LONGEST[dialect]}; choose a shorter one."
        )
    if what == "schema" and dialect is DialectName.POSTGRES and name.startswith("pg_"):
        raise InvalidIdentifier(f"The schema {name} is not allowed: PostgreSQL keeps names with pg_ for itself.")
    return name


def quote(name: str, dialect: DialectName, what: str = "table") -> str:
    """Return *name* in the quotes of *dialect*; it is checked first."""
    mark = _QUOTES[dialect]
    return f"{mark}{check_identifier(name, dialect, what)}{mark}"


def qualified(schema: str | None, table: str, dialect: DialectName) -> str:
    """Return the quoted name of *table*, with its *schema* before it unless that is None."""
    quoted = quote(table, dialect)
    return quoted if schema is None else f"{quote(schema, dialect, 'schema')}.{quoted}"


__all__ = ["LONGEST", "check_identifier", "qualified", "quote"]
