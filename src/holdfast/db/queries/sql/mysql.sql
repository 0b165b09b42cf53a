-- Queries that must differ on mysql, under the names they have elsewhere; `-- only: mysql` marks those that are nowhere else.

-- name: server_version
-- only: mysql
SELECT VERSION() AS version;

-- name: migration_table_present
SELECT 1 AS present FROM information_schema.tables
WHERE table_schema = DATABASE() AND table_name = 'holdfast_migrations';

-- name: migration_table_create
CREATE TABLE IF NOT EXISTS @holdfast_migrations (version BIGINT NOT NULL PRIMARY KEY)
ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- name: migration_seed
-- Two who see the empty table lock the gap that both want to fill: one is chosen to begin again.
INSERT INTO @holdfast_migrations (version)
SELECT 0 FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM @holdfast_migrations);

-- name: migration_note
INSERT INTO @holdfast_meta ("key", "value") VALUES ('schema_version', :version)
ON DUPLICATE KEY UPDATE "value" = VALUES("value");

-- name: migration_lock_try
-- Names of locks are shared by all databases of the server.
-- only: postgres, mysql
SELECT GET_LOCK(CONCAT('holdfast.migrations.', :lock), 0) AS held;

-- name: migration_lock_release
-- only: postgres, mysql
SELECT RELEASE_LOCK(CONCAT('holdfast.migrations.', :lock)) AS released;

-- name: server_here
-- only: postgres, mysql
-- Which server this is: no two that replicate from each other have the same id.
SELECT CAST(@@server_id AS CHAR) AS server;
