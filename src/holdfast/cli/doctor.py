"""``holdfast doctor``: look at everything that durable runs depend on, change nothing, and say what to do."""

from __future__ import annotations

import asyncio
import sqlite3
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.cli.database import database_options, named_database, quietly
from holdfast.cli.doctor_runs import executor_findings, waiting_findings
from holdfast.cli.doctor_settings import mysql_findings, postgres_findings, rights_finding
from holdfast.cli.doctor_sqlite import file_findings, library_finding
from holdfast.cli.failure import failures
from holdfast.cli.findings import Finding, Level, judged, problem
from holdfast.cli.output import Output, plain
from holdfast.db.manager import ConnectionManager
from holdfast.db.migrations.migrator import Migrator
from holdfast.db.queries.queries import Queries
from holdfast.db.url import DialectName
from holdfast.errors import DatabaseError, NotOurDatabase, SchemaError
from holdfast.workflows.queries import workflow_queries
from holdfast.workflows.remote.remote import refuse_foreign_file

if TYPE_CHECKING:
    from holdfast.db.session import Row
    from holdfast.db.url import DatabaseURL

_PROBLEMS = 1
_LARGEST_SKEW = 2.0
_SLOWEST_TRIP = 0.1
_PATIENCE_MS = 60_000
_MOST_GROUPS = 20
_PACKAGES = {DialectName.POSTGRES: ("asyncpg", "postgres"), DialectName.MYSQL: ("asyncmy", "mysql")}


def doctor_queries(dialect: DialectName, schema: str | None) -> Queries:
    """Load the doctor's queries."""
    return Queries.load(dialect, schema, folder=Path(__file__).with_name("sql"))


@click.command(name="doctor")
@database_options
def command(url: str | None, schema: str, *, as_json: bool) -> None:
    """Check a database and its settings, and say what to do. Nothing is changed.

    Exit codes: 0 all is well, though there may be advice; 1 there are problems; 2 it could not be done.
    """
    with failures(), quietly():
        place = named_database(url)
        findings = asyncio.run(_examine(place, schema))
    out = Output(as_json=as_json)
    well = all(each.level is not Level.PROBLEM for each in findings)
    out.document({"ok": well, "findings": [plain(each) for each in findings]})
    out.table(
        ("", "check", "found", "what to do"),
        [(each.level.value, each.check, each.found, each.remedy) for each in findings],
        about="check",
    )
    if not well:
        raise click.exceptions.Exit(_PROBLEMS)


async def _examine(place: DatabaseURL, schema: str) -> list[Finding]:
    """Go as far as each check lets the next one make sense."""
    findings = [Finding("database", place.safe), _driver(place.dialect)]
    if findings[-1].level is Level.PROBLEM:
        return findings
    if place.dialect is DialectName.SQLITE:
        findings.append(library_finding(sqlite3.sqlite_version))
    manager = ConnectionManager(place.secret_text(), pool_size=1, application_name="holdfast-doctor")
    try:
        refuse_foreign_file(manager.url)
        await manager.initialize()
    except (DatabaseError, NotOurDatabase) as error:
        return [*findings, problem("connection", "none", " ".join(str(error).split()))]
    try:
        return findings + await _Examination(manager, schema).findings()
    finally:
        await manager.close()


def _driver(dialect: DialectName) -> Finding:
    if dialect is DialectName.SQLITE:
        return Finding("driver", "the interpreter's own sqlite3")
    package, extra = _PACKAGES[dialect]
    try:
        return Finding("driver", f"{package} {version(package)}")
    except PackageNotFoundError:
        return problem("driver", f"{package} is not installed", f"Install holdfast[{extra}].")


class _Examination:
    """The checks that need a connection."""

    def __init__(self, manager: ConnectionManager, schema: str) -> None:
        self._manager = manager
        self._schema = schema
        self._queries = doctor_queries(manager.dialect, schema)

    async def findings(self) -> list[Finding]:
        """Return what is found about the connection, the clock, the tables, the server and the runs."""
        found = await self._clock()
        tables, ready = await self._tables()
        found += tables
        executors: list[Row] = []
        if ready:
            queries = workflow_queries(self._manager.dialect, self._schema)
            try:
                executors = await self._manager.fetch(queries["executors_list"])
            except DatabaseError as error:
                found.append(_unreadable("executors", error))
                ready = False
        found += await self._settings(len(executors))
        if ready:
            found += [*executor_findings(executors), *await self._waiting(executors)]
        return found

    async def _waiting(self, executors: list[Row]) -> list[Finding]:
        try:
            waiting = await self._manager.fetch(
                self._queries["doctor_waiting"], patience_ms=_PATIENCE_MS, most=_MOST_GROUPS
            )
        except DatabaseError as error:
            return [_unreadable("waiting runs", error)]
        return waiting_findings(waiting, executors)

    async def _clock(self) -> list[Finding]:
        """Ask for the time twice: the first answer has to be prepared."""
        world = self._manager.world
        await self._manager.fetch(self._queries["doctor_clock"])
        begun, monotonic = world.now(), world.monotonic()
        [row] = await self._manager.fetch(self._queries["doctor_clock"])
        trip = world.monotonic() - monotonic
        skew = row["now_ms"] / 1000 - (begun + trip / 2)
        return [
            judged(
                "round trip",
                f"{trip * 1000:.1f} ms",
                ok=trip <= _SLOWEST_TRIP,
                remedy="Every commit takes at least this long: run the application nearer to its database.",
                level=Level.ADVICE,
            ),
            judged(
                "clock",
                f"the database's is {abs(skew):.1f} s {'ahead' if skew > 0 else 'behind'}"
                if _differs(skew)
                else "agrees",
                ok=not _differs(skew),
                remedy="Timers follow the database's clock: let both hosts set theirs by NTP.",
            ),
        ]

    async def _tables(self) -> tuple[list[Finding], bool]:
        """Return what is found about the tables, and whether they can be read."""
        rights = await self._rights()
        migrator = Migrator(self._manager, schema=self._schema, create_database=False)
        try:
            found = await migrator.current_version()
            if not found:
                remedy = "Run `holdfast migrate`, or check the URL and the schema."
                return [problem("tables", "none", remedy)], False
            await migrator.check()
        except DatabaseError as error:
            return [_unreadable("tables", error), *rights], False
        except SchemaError as error:
            return [problem("tables", f"version {found}", " ".join(str(error).split())), *rights], False
        return [Finding("tables", f"version {found}, as this release needs"), *rights], True

    async def _rights(self) -> list[Finding]:
        if self._manager.dialect is not DialectName.POSTGRES:
            return []
        lacking = await self._manager.fetch(self._queries["doctor_rights"], schema=self._schema)
        return [rights_finding([row["name"] for row in lacking])]

    async def _settings(self, executors: int) -> list[Finding]:
        rows = await self._manager.fetch(self._queries["doctor_settings"])
        if self._manager.dialect is DialectName.SQLITE:
            [synchronous] = await self._manager.fetch(self._queries["doctor_synchronous"])
            path = Path(self._manager.url.path or "")
            return file_findings(path, rows[0]["journal_mode"], synchronous["synchronous"])
        settings = dict(tuple(row.values()) for row in rows)
        judge = postgres_findings if self._manager.dialect is DialectName.POSTGRES else mysql_findings
        return judge(settings, executors)


def _unreadable(check: str, error: DatabaseError) -> Finding:
    remedy = "Give the user the rights that it lacks, or restore what is missing from a backup."
    return problem(check, f"cannot be read: {' '.join(str(error).split())}", remedy)


def _differs(skew: float) -> bool:
    return abs(skew) > _LARGEST_SKEW


__all__ = ["command", "doctor_queries"]
