-- name: outputs_present
-- The catalog is read, not information_schema, which hides tables that this user has no rights to.
SELECT 1 AS present
FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = {schema_name} AND c.relname = 'transaction_outputs';

-- name: outputs_schema_present
-- only: postgres
SELECT 1 AS present FROM pg_catalog.pg_namespace WHERE nspname = {schema_name};

-- name: outputs_schema_create
-- Asked for only when it is not there: IF NOT EXISTS alone wants the right to create schemas even if it is.
-- only: postgres
CREATE SCHEMA IF NOT EXISTS {schema};
