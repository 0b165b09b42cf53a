-- Queries that must differ on postgres, under the names they have elsewhere; `-- only: postgres` marks those that are nowhere else.

-- name: database_present
-- only: postgres
SELECT 1 AS present FROM pg_catalog.pg_database WHERE datname = :name;

-- name: database_create
-- only: postgres
CREATE DATABASE {database};

-- name: schema_present
-- only: postgres
SELECT 1 AS present FROM pg_catalog.pg_namespace WHERE nspname = {schema_name};

-- name: schema_create
-- Asked for only when the schema is not there: IF NOT EXISTS alone wants the right to create schemas even if it is.
-- only: postgres
CREATE SCHEMA IF NOT EXISTS {schema};

-- name: migration_table_present
-- The catalog is read, not information_schema, which hides tables that this user has no rights to.
SELECT 1 AS present
FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = {schema_name} AND c.relname = 'holdfast_migrations';

-- name: migration_table_create
CREATE TABLE IF NOT EXISTS @holdfast_migrations (version BIGINT NOT NULL PRIMARY KEY);

-- name: migration_lock_try
-- only: postgres, mysql
SELECT pg_try_advisory_lock(:lock) AS held;

-- name: migration_lock_release
-- only: postgres, mysql
SELECT pg_advisory_unlock(:lock) AS released;

-- name: server_here
-- only: postgres, mysql
-- Which server this is, and since how many promotions: one that is started again is the same, and a standby that has
-- taken its primary's place is another. NULL while it is a standby.
SELECT CASE WHEN NOT pg_is_in_recovery() THEN
    concat((SELECT s.system_identifier FROM pg_control_system() AS s), '/', left(pg_walfile_name(pg_current_wal_lsn()), 8))
END AS server;
