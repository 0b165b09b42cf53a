"""The tables, brought to what this release needs."""

from holdfast.db.migrations.migrator import Migrator, run_holdfast_migrations, should_migrate

__all__ = ["Migrator", "run_holdfast_migrations", "should_migrate"]
