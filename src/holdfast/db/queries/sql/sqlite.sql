-- Queries that must differ on sqlite, under the names they have elsewhere; `-- only: sqlite` marks those that are nowhere else.

-- name: migration_table_present
SELECT 1 AS present FROM sqlite_master WHERE type = 'table' AND name = 'holdfast_migrations';

-- name: migration_table_create
CREATE TABLE IF NOT EXISTS @holdfast_migrations (version INTEGER NOT NULL PRIMARY KEY);
