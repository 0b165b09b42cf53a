"""Which database a command is about."""

from __future__ import annotations

import logging
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.failure import Failure
from holdfast.db.migrations.migrator import SCHEMA
from holdfast.db.url import DatabaseURL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_VARIABLES = ("HOLDFAST_DATABASE_URL", "DATABASE_URL")


def named_database(url: str | None) -> DatabaseURL:
    """Return the database that was named on the command line, or else by the environment."""
    if url is not None and not url.strip():  # by a variable that is not set: another database is not what was meant
        raise Failure("The URL of the database is empty: say one, or leave it away for that of the environment.")
    return DatabaseURL.parse(url or _from_environment())


def _from_environment() -> str:
    for name in _VARIABLES:
        if text := os.environ.get(name):
            return text
    raise Failure(f"No database was named: give its URL, or set {' or '.join(_VARIABLES)}.")


def database_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add what every command about a database may be told: ``url``, ``schema`` and ``as_json``."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else."),
        click.option("--schema", default=SCHEMA, show_default=True, help="PostgreSQL's schema for the tables."),
        click.option("--url", help=f"The database; by default {' or '.join(_VARIABLES)} in the environment."),
    ):
        function = option(function)
    return function


@contextmanager
def quietly() -> Iterator[None]:
    """Keep off the screen what an application should log about its database; the doctor says it when asked."""
    logger = logging.getLogger("holdfast.db")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


__all__ = ["database_options", "named_database", "quietly"]
