-- name: outputs_schema_present
-- only: postgres
SELECT 1 AS present FROM pg_catalog.pg_namespace WHERE nspname = {schema_name};

-- name: outputs_schema_create
-- Asked for only when it is not there: IF NOT EXISTS alone wants the right to create schemas even if it is.
-- only: postgres
CREATE SCHEMA IF NOT EXISTS {schema};
