"""Brings a database's tables to what this release needs, whoever else is doing the same at this moment.

``holdfast_migrations`` has one row, the highest version applied, and is the truth; the row ``schema_version``
of ``holdfast_meta`` repeats it. A migration first claims its version by raising that row from the one before:
a process that finds the row raised, or waits for one that raises it, skips the migration. So it is applied
once, with the lock or without.

PostgreSQL and SQLite apply a migration and its version in one transaction. MariaDB/MySQL commit at every
statement that changes a table; there a second connection carries the statements out while the first holds the
claim. A crash in between leaves statements done and the version as it was: they run again, and what is there
already is passed over.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast import faults
from holdfast.db.backend import PooledBackend
from holdfast.db.migrations import files as migration_files
from holdfast.db.migrations.files import Migration, read_migrations
from holdfast.db.migrations.lock import migration_lock
from holdfast.db.migrations.script import script
from holdfast.db.postgres.missing_database import open_or_create
from holdfast.db.queries.identifiers import check_identifier, quote
from holdfast.db.queries.queries import Queries
from holdfast.db.session import native
from holdfast.db.url import DialectName
from holdfast.errors import (
    Conflict,
    ConnectionLost,
    NotPermitted,
    QueryFailed,
    SchemaTooNew,
    SchemaTooOld,
    UnknownCommit,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from holdfast.db.backend import SqliteBackend
    from holdfast.db.manager import ConnectionManager
    from holdfast.db.session import Row, Session, Transaction

logger = logging.getLogger("holdfast.migrations")

SCHEMA = "holdfast"
_READ_ATTEMPTS = 8

# Of MariaDB/MySQL: the table, the column, the index is there; the column or index to drop is not.
_ALREADY_DONE = {1050, 1060, 1061, 1091}


class Migrator:
    """The migrations of one database. *schema* is where PostgreSQL keeps our tables; the others ignore it.

    *create_database* lets ``migrate`` create a PostgreSQL database that is not there. *folder* holds other
    migrations than the package's own, for tests.
    """

    def __init__(
        self,
        manager: ConnectionManager,
        *,
        schema: str = SCHEMA,
        create_database: bool = True,
        folder: Path | None = None,
    ) -> None:
        self._manager = manager
        self._dialect = manager.dialect
        self._schema = check_identifier(schema, self._dialect, "schema")
        self._create_database = create_database
        self._queries = Queries.load(self._dialect, schema, fragments=schema_fragments(self._dialect, schema))
        self.migrations = read_migrations(folder or migration_files.FOLDER, self._dialect)

    @property
    def latest(self) -> int:
        """The version this code needs."""
        return self.migrations[-1].version

    async def current_version(self) -> int:
        """Return the version the database is at, 0 if it was never migrated. Locks and writes nothing."""
        return await self._stored_version() or 0

    async def pending(self) -> list[Migration]:
        """Return what is to be applied, in order; raises SchemaTooNew. Locks and writes nothing."""
        version = await self.current_version()
        if version > self.latest:
            raise SchemaTooNew(
                f"The tables in {self._manager.url.safe} are at version {version}, but this release of "
                f"holdfast knows them only up to version {self.latest}: install the release that migrated "
                "them, or a later one."
            )
        return [migration for migration in self.migrations if migration.version > version]

    async def check(self) -> None:
        """Raise SchemaTooOld or SchemaTooNew unless the database is at the version this code needs."""
        if pending := await self.pending():
            raise SchemaTooOld(
                f"The tables in {self._manager.url.safe} are at version {pending[0].version - 1}, but this "
                f"release of holdfast needs version {self.latest}: run `holdfast migrate`."
            )

    async def migrate(self) -> list[Migration]:
        """Apply what is missing and return what this call applied; another process may have done some of it.

        Opens the manager if it is not open. A database that is current is neither locked nor written to; one
        that is too new is refused with SchemaTooNew before anything is touched. A migration that fails leaves
        those before it applied and raises; calling again goes on from there.
        """
        if self._create_database:
            await open_or_create(self._manager)
        else:
            await self._manager.initialize()
        self._manager.refuse_inside_transaction("migrate")
        if not await self.pending():
            return []
        try:
            async with migration_lock(self._manager, self._queries, self._schema, self._is_pending):
                applied = await self._apply_pending()
        except NotPermitted as error:
            raise NotPermitted(
                f"The user of {self._manager.url.safe} may not make or change tables: run `holdfast migrate` as their "
                f"owner, or have the owner run what `holdfast migrate --print` prints. {error}"
            ) from error
        await self.check()
        return applied

    async def script(self) -> str:
        """Return what ``migrate`` would do to this database now, as SQL for its own command-line client."""
        pending = await self.pending()
        if not pending:
            return f"-- The tables are at version {self.latest}: there is nothing to run.\n"
        fragments = await self._fragments()
        return script(self._queries, [(migration, self._statements(migration, fragments)) for migration in pending])

    async def _is_pending(self) -> bool:
        return bool(await self.pending())

    async def _apply_pending(self) -> list[Migration]:
        pending = await self.pending()
        if not pending:
            return []
        await self._prepare_version_table()
        fragments = await self._fragments()
        return [
            migration for migration in pending if await self._apply(migration, self._statements(migration, fragments))
        ]

    async def _apply(self, migration: Migration, statements: Sequence[str]) -> bool:
        """Apply one migration; return False if another process has."""
        version = migration.version
        backend = self._manager.backend()

        async def work(transaction: Transaction) -> bool:
            claimed = await transaction.execute(self._queries["migration_claim"], version=version, before=version - 1)
            if not claimed:
                return False
            await self._carry_out(backend, transaction, statements)
            await transaction.execute(self._queries["migration_note"], version=str(version))
            faults.point("migration.before_commit")
            return True

        faults.point("migration.before")
        applied = await self._manager.run(work)
        if applied:
            faults.point("migration.after_commit")
            logger.info("Applied migration %s to %s.", migration.name, self._manager.url.safe)
        return applied

    async def _carry_out(
        self, backend: PooledBackend | SqliteBackend, transaction: Transaction, statements: Sequence[str]
    ) -> None:
        if self._dialect is not DialectName.MYSQL or not isinstance(backend, PooledBackend):
            for statement in statements:
                await transaction.execute(statement)
            return
        session = await backend.connect()
        try:
            for statement in statements:
                await _execute_unless_done(session, statement)
        finally:
            await session.close()

    async def _prepare_version_table(self) -> None:
        """Make the schema, the version table and its row, as far as they are missing."""
        if await self._stored_version() is not None:
            return

        async def create(transaction: Transaction) -> None:
            if self._dialect is DialectName.POSTGRES and not await transaction.fetch(self._queries["schema_present"]):
                await transaction.execute(self._queries["schema_create"])
            await transaction.execute(self._queries["migration_table_create"])

        async def seed(transaction: Transaction) -> None:
            await transaction.execute(self._queries["migration_seed"])

        try:
            await self._manager.run(create)
        except (Conflict, QueryFailed):
            # On PostgreSQL two who create a thing at once may both find it missing; the second one fails.
            if not await self._read("migration_table_present"):
                raise
        with suppress(Conflict):  # another process's row came first
            await self._manager.run(seed, isolation="SERIALIZABLE")

    async def _stored_version(self) -> int | None:
        if not await self._read("migration_table_present"):
            return None
        [row] = await self._read("migration_version")
        return None if row["version"] is None else int(row["version"])

    async def _read(self, name: str) -> list[Row]:
        """Read outside of any transaction: ``run`` would take SQLite's write lock even for a look."""
        [(text, values)] = self._queries[name].bind({})
        for _ in range(_READ_ATTEMPTS - 1):
            try:
                return await self._manager.backend().fetch(text, values)
            except (
                ConnectionLost,
                UnknownCommit,
            ):  # a pooled connection that the server had closed; nothing to undo
                continue
        return await self._manager.backend().fetch(text, values)

    def _statements(self, migration: Migration, fragments: Mapping[str, str]) -> list[str]:
        return migration_files.statements(migration, self._dialect, self._schema, fragments)

    async def _fragments(self) -> Mapping[str, str]:
        fragments = schema_fragments(self._dialect, self._schema)
        if self._dialect is DialectName.MYSQL:
            [row] = await self._read("server_version")
            fragments |= {"key_collation": key_collation(row["version"])}
        return fragments


def schema_fragments(dialect: DialectName, schema: str) -> dict[str, str]:
    """Return the schema as the fragments ``{schema}``, a quoted name, and ``{schema_name}``, a string."""
    return {"schema": quote(schema, dialect, "schema"), "schema_name": f"'{schema}'"}


def key_collation(server_version: str) -> str:
    """Return the collation in which keys are equal only if they are the same, trailing spaces included."""
    return "utf8mb4_nopad_bin" if "mariadb" in server_version.lower() else "utf8mb4_0900_bin"


async def _execute_unless_done(session: Session, statement: str) -> None:
    try:
        await session.execute(native(statement, DialectName.MYSQL, ()), ())
    except QueryFailed as error:
        reason = getattr(error.__cause__, "args", ())[:1]
        if not reason or reason[0] not in _ALREADY_DONE:
            raise


async def run_holdfast_migrations(
    manager: ConnectionManager, *, schema: str = SCHEMA, create_database: bool = True
) -> list[Migration]:
    """Apply what is missing; see ``Migrator.migrate``."""
    return await Migrator(manager, schema=schema, create_database=create_database).migrate()


async def should_migrate(manager: ConnectionManager, *, schema: str = SCHEMA) -> bool:
    """Tell whether there is anything to apply; raises SchemaTooNew. Locks and writes nothing."""
    return bool(await Migrator(manager, schema=schema).pending())


__all__ = ["SCHEMA", "Migration", "Migrator", "key_collation", "run_holdfast_migrations", "should_migrate"]
