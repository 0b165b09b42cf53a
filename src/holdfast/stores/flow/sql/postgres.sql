-- fragment: sequence_column
sequence BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY

-- name: flow_present
-- The catalog is read, not information_schema, which hides tables that this user has no rights to.
SELECT 1 AS present
FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = COALESCE({schema_name}, current_schema()) AND c.relname = {table_name};

-- name: flow_schema_create
-- only: postgres
CREATE SCHEMA IF NOT EXISTS {schema};

-- name: flow_schema_present
-- only: postgres
SELECT 1 AS present FROM pg_catalog.pg_namespace WHERE nspname = COALESCE({schema_name}, current_schema());
