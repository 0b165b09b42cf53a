"""The tables, brought to what this release needs."""

from holdfast.db.migrations.migrator import Migration, Migrator, run_holdfast_migrations, should_migrate

__all__ = ["Migration", "Migrator", "run_holdfast_migrations", "should_migrate"]
