"""``holdfast migrate``: apply migrations, or only say or show what is waiting."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.cli.database import named_database
from holdfast.cli.examples import examples
from holdfast.cli.failure import failures
from holdfast.cli.output import printable
from holdfast.db.manager import ConnectionManager
from holdfast.db.migrations.migrator import SCHEMA, Migrator
from holdfast.db.url import DialectName

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.db.migrations.migrator import Migration
    from holdfast.db.url import DatabaseURL

_PENDING = 1


@click.command(name="migrate", epilog=examples("migrate shop.db", "migrate --check", "migrate --print > tables.sql"))
@click.argument("url", required=False)
@click.option("--url", "named_url", help="The database, as every command takes it; instead of URL.")
@click.option("--schema", default=SCHEMA, show_default=True, help="PostgreSQL's schema for the tables.")
@click.option("--check", is_flag=True, help="Change nothing; exit with 1 if migrations are waiting.")
@click.option("--print", "show", is_flag=True, help="Change nothing; print the SQL that would run.")
def command(url: str | None, named_url: str | None, schema: str, *, check: bool, show: bool) -> None:
    """Bring the tables in the database URL to what this release needs.

    Without URL the database is the one in the environment variable HOLDFAST_DATABASE_URL, or else
    DATABASE_URL; so no password has to stand on the command line. A PostgreSQL database that does not exist
    is created.

    Exit codes: 0 the tables are as needed, 1 migrations are waiting (--check), 2 it could not be done.
    """
    if check and show:
        raise click.UsageError("--check and --print exclude each other: give one of them.")
    if url is not None and named_url is not None:
        raise click.UsageError("URL and --url name the database twice: give one of them.")
    with failures():
        place = named_database(named_url if url is None else url)
        if show:
            click.echo(asyncio.run(_script(place, schema)), nl=False)
        elif check:
            _report(place, asyncio.run(_pending(place, schema)))
        else:
            _tell(place, asyncio.run(_migrate(place, schema)))


async def _migrate(place: DatabaseURL, schema: str) -> list[Migration]:
    manager = ConnectionManager(place.secret_text())
    try:
        return await Migrator(manager, schema=schema).migrate()
    finally:
        await manager.close()


async def _pending(place: DatabaseURL, schema: str) -> list[Migration]:
    async with ConnectionManager(_only_if_there(place)) as manager:
        return await Migrator(manager, schema=schema).pending()


async def _script(place: DatabaseURL, schema: str) -> str:
    async with ConnectionManager(_only_if_there(place)) as manager:
        return await Migrator(manager, schema=schema).script()


def _only_if_there(place: DatabaseURL) -> str:
    """Return where to look. SQLite would create a missing file; an empty database in memory says the same."""
    missing = place.dialect is DialectName.SQLITE and place.path is not None and _is_missing(Path(place.path))
    return "sqlite://" if missing else place.secret_text()


def _is_missing(file: Path) -> bool:
    try:
        file.stat()
    except FileNotFoundError:
        return True
    except OSError:  # opening it will say why
        return False
    return False


def _report(place: DatabaseURL, pending: Sequence[Migration]) -> None:
    if not pending:
        _say(f"The tables in {place.safe} are as this release needs them.")
        return
    names = ", ".join(migration.name for migration in pending)
    _say(f"Migrations are waiting for {place.safe}: {names}. Run `holdfast migrate`.")
    raise click.exceptions.Exit(_PENDING)


def _tell(place: DatabaseURL, applied: Sequence[Migration]) -> None:
    for migration in applied:
        _say(f"Applied {migration.name}.")
    _say(f"The tables in {place.safe} are as this release needs them.")


def _say(text: str) -> None:
    click.echo(printable(text))


__all__ = ["command"]
