-- fragment: planned

-- fragment: probed

-- fragment: in_list
IN (SELECT l.v FROM JSON_TABLE(

-- fragment: list_end
-- In the collation of the keys, which MariaDB and MySQL call differently; in any other it could not be compared.
, '$[*]' COLUMNS (
    v VARCHAR(512) CHARACTER SET utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */ PATH '$'
)) AS l)

-- fragment: position
instr

-- fragment: by_owner

-- fragment: status_text
w.status

-- fragment: forked_text
w.forked_from

-- fragment: priority_text
CAST(w.priority AS CHAR)

-- fragment: attributes
-- No index knows attributes here.
w.attributes IS NOT NULL AND :attributes IS NOT NULL

-- fragment: listed_attribute
-- No index knows attributes here.
AND :attribute IS NOT NULL AND :attribute_value IS NOT NULL

-- fragment: attributes_any
-- JSON_CONTAINS also finds a value among those of a list, which is another value, and takes whole numbers for floats:
-- above 2^53 it finds others than the one that is asked for. A run with the escape of NUL is not found by its
-- attributes, as on PostgreSQL; CHAR(92) is the backslash, whatever the server makes of one in a text.
(LOCATE(CONCAT(CHAR(92), 'u0000'), w.attributes) = 0 AND JSON_CONTAINS(w.attributes, :attributes_any) AND NOT EXISTS (
    SELECT 1 FROM JSON_TABLE(JSON_KEYS(:attributes_any), '$[*]' COLUMNS (
        k VARCHAR(512) CHARACTER SET utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */ PATH '$'
    )) AS q
    WHERE JSON_TYPE({attribute_there}) IN ('ARRAY', 'OBJECT')
       OR (JSON_TYPE({attribute_there}) = 'INTEGER' AND JSON_TYPE({attribute_asked}) = 'INTEGER'
           AND CAST({attribute_there} AS CHAR) <> CAST({attribute_asked} AS CHAR))
))

-- fragment: attribute_there
JSON_EXTRACT(w.attributes, CONCAT('$.', JSON_QUOTE(q.k)))

-- fragment: attribute_asked
JSON_EXTRACT(:attributes_any, CONCAT('$.', JSON_QUOTE(q.k)))

-- name: run_import
-- rows: workflow_uuid text, status text, name text, class_name text, config_name text, inputs text, output text
-- rows: error text, serialization text, output_serialization text, authenticated_user text, assumed_role text
-- rows: authenticated_roles text, executor_id text, created_at bigint, updated_at bigint, started_at_epoch_ms bigint
-- rows: completed_at bigint, application_version text, application_id text, parent_workflow_id text
-- rows: forked_from text, was_forked_from bool, executions int, generation int, fingerprint text, attributes text
-- rows: queue_name text, priority int, queue_partition_key text, recovery_attempts bigint
-- rows: workflow_timeout_ms bigint, workflow_deadline_epoch_ms bigint, retries int
-- rows: is_debounced bool, debounce_deadline_epoch_ms bigint, creation_key text
INSERT INTO @workflow_status (
    workflow_uuid, status, name, class_name, config_name, inputs, output, error, serialization, output_serialization,
    authenticated_user, assumed_role, authenticated_roles, executor_id, created_at, updated_at, started_at_epoch_ms,
    completed_at, application_version, application_id, parent_workflow_id, forked_from, was_forked_from, executions,
    generation, fingerprint, attributes, queue_name, priority, queue_partition_key, recovery_attempts,
    workflow_timeout_ms, workflow_deadline_epoch_ms, retries, is_debounced, debounce_deadline_epoch_ms, creation_key
)
SELECT
    r.workflow_uuid, r.status, r.name, r.class_name, r.config_name, r.inputs, r.output, r.error, r.serialization,
    r.output_serialization, r.authenticated_user, r.assumed_role, r.authenticated_roles, r.executor_id, r.created_at,
    COALESCE(r.updated_at, {now_ms}), r.started_at_epoch_ms, r.completed_at, r.application_version, r.application_id,
    r.parent_workflow_id, r.forked_from, r.was_forked_from, r.executions, r.generation, r.fingerprint, r.attributes,
    r.queue_name, r.priority, r.queue_partition_key, r.recovery_attempts, r.workflow_timeout_ms,
    r.workflow_deadline_epoch_ms, r.retries, r.is_debounced, r.debounce_deadline_epoch_ms, r.creation_key
FROM {rows} AS r
WHERE true
ON DUPLICATE KEY UPDATE workflow_uuid = @workflow_status.workflow_uuid;

-- name: steps_import
-- rows: workflow_uuid text, function_id int, function_name text, identity text, fingerprint text, output text
-- rows: error text, child_workflow_id text, serialization text, started_at_epoch_ms bigint
-- rows: completed_at_epoch_ms bigint
INSERT INTO @operation_outputs (
    workflow_uuid, function_id, function_name, identity, fingerprint, output, error, child_workflow_id, serialization,
    started_at_epoch_ms, completed_at_epoch_ms
)
SELECT
    r.workflow_uuid, r.function_id, r.function_name, r.identity, r.fingerprint, r.output, r.error,
    r.child_workflow_id, r.serialization, r.started_at_epoch_ms, r.completed_at_epoch_ms
FROM {rows} AS r
WHERE true
ON DUPLICATE KEY UPDATE workflow_uuid = @operation_outputs.workflow_uuid;
