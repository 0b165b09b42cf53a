-- name: transaction_record
-- It goes to the server together with COMMIT, which nothing may hold back but an error. So where the token is another
-- one now, or the run has ended, the name is missing, and that is one.
INSERT INTO @operation_outputs (
    workflow_uuid, function_id, function_name, identity, fingerprint, output, serialization, owner_xid,
    started_at_epoch_ms, completed_at_epoch_ms
)
VALUES (
    :id, CAST(:position AS integer),
    (
        SELECT CAST(:name AS text) FROM @workflow_status AS w
        WHERE w.workflow_uuid = :id AND w.owner_xid = :token AND w.status || '' = 'PENDING'
        FOR SHARE OF w
    ),
    :identity, :fingerprint, :output, :serialization, :token, {now_ms} - :duration_ms, {now_ms}
);

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

-- name: limits_lower
-- Until the end of the transaction; a limit that is shorter already is left. 0 is none.
-- only: postgres, mysql
SELECT set_config(l.name, CAST(CAST(:pause AS integer) AS text) || 's', true)
FROM (VALUES ('idle_in_transaction_session_timeout'), ('lock_timeout')) AS l (name)
WHERE
    CAST(current_setting(l.name) AS interval) = INTERVAL '0'
    OR CAST(current_setting(l.name) AS interval) > make_interval(secs => CAST(:pause AS integer));
