-- Queries that every dialect runs as they are. The grammar is in queries.py.

-- name: migration_version
-- The highest version that was applied: 0 before the first, NULL in a table that was never filled.
SELECT max(version) AS version FROM @holdfast_migrations;

-- name: migration_seed
-- Gives the table its one row. Run at SERIALIZABLE: of two who see it empty only one may insert.
INSERT INTO @holdfast_migrations (version)
SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM @holdfast_migrations);

-- name: migration_claim
-- Touches no row if another process has applied this version; waits for one that is about to.
UPDATE @holdfast_migrations SET version = :version WHERE version = :before;

-- name: migration_note
INSERT INTO @holdfast_meta ("key", "value") VALUES ('schema_version', :version)
ON CONFLICT ("key") DO UPDATE SET "value" = excluded."value";
