-- MariaDB/MySQL: what is joined begins with what is wanted (STRAIGHT_JOIN) and finds the runs by their key (FORCE INDEX):
-- a small table would be walked from end to end, and every row on the way waited for that somebody else has locked. Rows
-- are locked in the order in which their ids are given.

-- name: runs_hold
SELECT
    w.workflow_uuid, w.status, w.executions, w.wait_kind, w.parent_workflow_id, w.owner_xid, w.creation_key, w.change_key,
    w.cancel_key, w.attributes
FROM {rows} AS r STRAIGHT_JOIN @workflow_status AS w FORCE INDEX (PRIMARY) ON w.workflow_uuid = r.id
FOR UPDATE;

-- name: runs_hold_overdue
SELECT w.workflow_uuid, w.status, w.change_key,
    CASE WHEN w.workflow_deadline_epoch_ms <= {now_ms} THEN 1 ELSE 0 END AS overdue
FROM {rows} AS r STRAIGHT_JOIN @workflow_status AS w FORCE INDEX (PRIMARY) ON w.workflow_uuid = r.id
FOR UPDATE SKIP LOCKED;

-- name: runs_cancel
UPDATE {rows} AS r STRAIGHT_JOIN @workflow_status AS w FORCE INDEX (PRIMARY) ON w.workflow_uuid = r.id
SET w.status = 'CANCELLED', w.owner_xid = NULL, w.incarnation = NULL, w.queue_name = NULL, w.deduplication_id = NULL,
    w.completed_at = {now_ms}, w.updated_at = {now_ms}, w.change_key = :key, w.wait_kind = NULL,
    w.cancel_key = COALESCE(:cancel_key, CONCAT('deadline ', w.workflow_deadline_epoch_ms))
WHERE w.status IN ('PENDING', 'ENQUEUED', 'DELAYED');

-- name: runs_resume
UPDATE {rows} AS r STRAIGHT_JOIN @workflow_status AS w FORCE INDEX (PRIMARY) ON w.workflow_uuid = r.id
SET w.status = 'ENQUEUED', w.owner_xid = NULL, w.incarnation = NULL, w.recovery_attempts = 0,
    w.workflow_deadline_epoch_ms = NULL, w.error = NULL, w.output_serialization = NULL, w.completed_at = NULL,
    w.delay_until_epoch_ms = NULL, w.deduplication_id = NULL, w.queue_name = :queue_name,
    w.queue_partition_key = COALESCE(:partition_key, w.queue_partition_key),
    w.updated_at = {now_ms}, w.change_key = :key, w.cancel_key = NULL, w.wait_kind = NULL
WHERE w.status IN ('CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED');

-- name: runs_rewind
UPDATE {rows} AS r STRAIGHT_JOIN @workflow_status AS w FORCE INDEX (PRIMARY) ON w.workflow_uuid = r.id
SET w.status = 'ENQUEUED', w.generation = w.generation + 1, w.owner_xid = NULL, w.incarnation = NULL,
    w.recovery_attempts = 0, w.retries = 0, w.output = NULL, w.error = NULL, w.output_serialization = NULL,
    w.completed_at = NULL, w.started_at_epoch_ms = NULL, w.workflow_deadline_epoch_ms = NULL,
    w.delay_until_epoch_ms = NULL, w.deduplication_id = NULL, w.queue_name = :queue_name,
    w.queue_partition_key = :partition_key,
    w.application_version = COALESCE(:application_version, w.application_version),
    w.updated_at = {now_ms}, w.change_key = :key, w.cancel_key = NULL, w.wait_kind = NULL
WHERE w.status IN ('SUCCESS', 'ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED');

-- name: steps_cut
DELETE o FROM {rows} AS r STRAIGHT_JOIN @operation_outputs AS o FORCE INDEX (PRIMARY) ON o.workflow_uuid = r.id
WHERE o.function_id >= :start_step;
DELETE o FROM {rows} AS r STRAIGHT_JOIN @operation_outputs AS o FORCE INDEX (PRIMARY) ON o.workflow_uuid = r.id
LEFT JOIN @operation_outputs AS v FORCE INDEX (uq_operation_outputs_identity)
    ON v.workflow_uuid = o.workflow_uuid AND v.identity = {verdict_of_timeout}
WHERE o.function_name = 'holdfast.timeout' AND v.workflow_uuid IS NULL;

-- fragment: verdict_of_timeout
CONCAT(o.identity, '.0')

-- name: streams_cut
DELETE s FROM {rows} AS r STRAIGHT_JOIN @streams AS s FORCE INDEX (PRIMARY) ON s.workflow_uuid = r.id
WHERE s.function_id >= :start_step;

-- name: runs_forked
UPDATE {rows} AS r STRAIGHT_JOIN @workflow_status AS w FORCE INDEX (PRIMARY) ON w.workflow_uuid = r.id
SET w.was_forked_from = TRUE;

-- name: runs_delete
-- The runs that others name are a derived table, which is worked out before: no subquery may read what is deleted from.
DELETE w FROM {rows} AS r STRAIGHT_JOIN @workflow_status AS w FORCE INDEX (PRIMARY) ON w.workflow_uuid = r.id
LEFT JOIN (
    SELECT DISTINCT o.child_workflow_id FROM {rows} AS n
    STRAIGHT_JOIN @operation_outputs AS o FORCE INDEX (idx_operation_outputs_child) ON o.child_workflow_id = n.id
    STRAIGHT_JOIN @workflow_status AS u FORCE INDEX (PRIMARY) ON u.workflow_uuid = o.workflow_uuid
    WHERE u.status NOT IN ('SUCCESS', 'ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED')
) AS named ON named.child_workflow_id = w.workflow_uuid
WHERE named.child_workflow_id IS NULL AND w.status IN ('SUCCESS', 'ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED');

-- name: runs_set_delay
UPDATE {rows} AS r STRAIGHT_JOIN @workflow_status AS w FORCE INDEX (PRIMARY) ON w.workflow_uuid = r.id
SET w.delay_until_epoch_ms = COALESCE(:until_ms, {now_ms} + :delay_ms),
    w.updated_at = {now_ms}, w.change_key = :key
WHERE w.status = 'DELAYED' AND w.executions = 0 AND w.wait_kind IS NULL;

-- name: runs_attributes
UPDATE {rows} AS r STRAIGHT_JOIN @workflow_status AS w FORCE INDEX (PRIMARY) ON w.workflow_uuid = r.id
SET w.attributes = r.attributes, w.updated_at = {now_ms}, w.change_key = :key;
