-- MariaDB/MySQL writes first and then reads what came of it, in the same transaction.
--
-- A write that joins begins with what is wanted (STRAIGHT_JOIN) and finds the runs by their key (FORCE INDEX): a
-- small table would be walked from end to end, and every row on the way waited for that another executor has locked.

-- fragment: now_once
-- Here a statement has the time at hand.
{now_ms}

-- name: run_start
{started_runs}
ON DUPLICATE KEY UPDATE workflow_uuid = @workflow_status.workflow_uuid;
SELECT w.workflow_uuid FROM {rows} AS r
JOIN @workflow_status AS w ON w.workflow_uuid = r.id AND w.creation_key = r.token;

-- name: run_enqueue
{enqueued_runs}
ORDER BY r.deduplication_id, r.id
ON DUPLICATE KEY UPDATE workflow_uuid = @workflow_status.workflow_uuid;
SELECT w.workflow_uuid FROM {rows} AS r
JOIN @workflow_status AS w ON w.workflow_uuid = r.id AND w.creation_key = r.creation_key;

-- name: debounce_begin
UPDATE @workflow_status SET is_debounced = TRUE, debounce_deadline_epoch_ms = created_at + :timeout_ms
WHERE workflow_uuid = :id AND creation_key = :key;

-- name: debounce_extend
UPDATE @workflow_status
SET inputs = :inputs, serialization = :serialization, fingerprint = :fingerprint, change_key = :key,
    delay_until_epoch_ms = CASE
        WHEN debounce_deadline_epoch_ms < {now_ms} + :delay_ms THEN debounce_deadline_epoch_ms
        ELSE {now_ms} + :delay_ms END,
    updated_at = {now_ms}
WHERE workflow_uuid = :id AND deduplication_id = :deduplication_id AND status = 'DELAYED' AND executions = 0
  AND is_debounced;

-- name: step_record
-- LOCK IN SHARE MODE holds the run's row until commit: a plain read would let a take-over pass this write.
{records}
STRAIGHT_JOIN @workflow_status AS w FORCE INDEX (PRIMARY)
    ON w.workflow_uuid = r.id AND w.owner_xid = r.token
WHERE w.status = 'PENDING'
ORDER BY w.workflow_uuid
LOCK IN SHARE MODE
ON DUPLICATE KEY UPDATE workflow_uuid = @operation_outputs.workflow_uuid;
SELECT o.workflow_uuid, o.identity FROM {rows} AS r
JOIN @operation_outputs AS o ON o.workflow_uuid = r.id AND o.identity = r.identity AND o.owner_xid = r.token;

-- name: runs_hold_to_ask
SELECT w.workflow_uuid FROM {rows} AS r STRAIGHT_JOIN @workflow_status AS w FORCE INDEX (PRIMARY)
    ON w.workflow_uuid = r.id
FOR UPDATE;

-- name: run_share
SELECT w.status, w.owner_xid FROM @workflow_status AS w WHERE w.workflow_uuid = :id
LOCK IN SHARE MODE;

-- name: step_amend
UPDATE {rows} AS r STRAIGHT_JOIN @operation_outputs AS o FORCE INDEX (PRIMARY)
    ON o.workflow_uuid = r.id AND o.function_id = r.position AND o.owner_xid = r.token
SET o.output = r.output, o.child_workflow_id = r.child_id;

-- name: runs_progressed
UPDATE {rows} AS r STRAIGHT_JOIN @workflow_status AS w FORCE INDEX (PRIMARY)
    ON w.workflow_uuid = r.id AND w.owner_xid = r.token
SET w.recovery_attempts = 0
WHERE w.recovery_attempts > 0;

-- name: runs_adopt
UPDATE {rows} AS r STRAIGHT_JOIN @workflow_status AS w FORCE INDEX (PRIMARY) ON w.workflow_uuid = r.id
SET w.application_version = r.version;

-- name: run_finish
UPDATE {rows} AS r STRAIGHT_JOIN @workflow_status AS w FORCE INDEX (PRIMARY)
    ON w.workflow_uuid = r.id AND w.owner_xid = r.token
SET w.status = r.outcome, w.output = r.result, w.error = r.failure,
    w.output_serialization = r.result_serialization, w.completed_at = {now_ms}, w.updated_at = {now_ms},
    w.deduplication_id = NULL
WHERE w.status = 'PENDING';
SELECT w.workflow_uuid FROM {rows} AS r
JOIN @workflow_status AS w ON w.workflow_uuid = r.id AND w.owner_xid = r.token AND w.status = r.outcome;

-- name: run_exhausted
UPDATE @workflow_status
SET status = 'MAX_RECOVERY_ATTEMPTS_EXCEEDED', error = :error, output_serialization = :serialization,
    completed_at = {now_ms}, updated_at = {now_ms}, deduplication_id = NULL
WHERE workflow_uuid = :id AND owner_xid = :token AND status = 'PENDING';

-- name: run_hand_over
UPDATE {rows} AS r STRAIGHT_JOIN @workflow_status AS w FORCE INDEX (PRIMARY)
    ON w.workflow_uuid = r.id AND w.owner_xid = r.token
SET w.status = 'ENQUEUED', w.owner_xid = NULL, w.incarnation = NULL, w.updated_at = {now_ms},
    w.queue_name = COALESCE(w.queue_name, :internal_queue),
    w.wait_kind = CASE WHEN :begun = 1 THEN NULL ELSE w.wait_kind END
WHERE w.status = 'PENDING';
SELECT w.workflow_uuid FROM {rows} AS r
JOIN @workflow_status AS w ON w.workflow_uuid = r.id AND w.owner_xid IS NULL AND w.status = 'ENQUEUED';

-- name: run_retry
UPDATE {rows} AS r STRAIGHT_JOIN @workflow_status AS w FORCE INDEX (PRIMARY)
    ON w.workflow_uuid = r.id AND w.owner_xid = r.token
SET w.status = 'DELAYED', w.owner_xid = NULL, w.incarnation = NULL, w.updated_at = {now_ms}, w.change_key = r.token,
    w.retries = w.retries + 1, w.generation = w.generation + 1, w.delay_until_epoch_ms = {now_ms} + r.delay_ms,
    w.wait_kind = NULL, w.queue_name = COALESCE(w.queue_name, :internal_queue)
WHERE w.status = 'PENDING';
SELECT w.workflow_uuid FROM {rows} AS r
JOIN @workflow_status AS w ON w.workflow_uuid = r.id AND w.change_key = r.token AND w.status = 'DELAYED';

-- name: run_retry_cut
DELETE o FROM {rows} AS r STRAIGHT_JOIN @workflow_status AS w FORCE INDEX (PRIMARY)
    ON w.workflow_uuid = r.id AND w.change_key = r.token AND w.status = 'DELAYED'
STRAIGHT_JOIN @operation_outputs AS o FORCE INDEX (PRIMARY)
    ON o.workflow_uuid = r.id AND o.function_id >= r.cut;
DELETE o FROM {rows} AS r STRAIGHT_JOIN @workflow_status AS w FORCE INDEX (PRIMARY)
    ON w.workflow_uuid = r.id AND w.change_key = r.token AND w.status = 'DELAYED'
STRAIGHT_JOIN @operation_outputs AS o FORCE INDEX (PRIMARY)
    ON o.workflow_uuid = r.id AND o.function_name = 'holdfast.timeout'
LEFT JOIN @operation_outputs AS v FORCE INDEX (uq_operation_outputs_identity)
    ON v.workflow_uuid = o.workflow_uuid AND v.identity = CONCAT(o.identity, '.0')
WHERE v.workflow_uuid IS NULL;

-- name: run_retry_streams
SELECT s.workflow_uuid AS id, s."key" AS stream, min(s."offset") AS first_offset, min(r.cut) AS cut
FROM {rows} AS r STRAIGHT_JOIN @workflow_status AS w FORCE INDEX (PRIMARY)
    ON w.workflow_uuid = r.id AND w.change_key = r.token AND w.status = 'DELAYED'
STRAIGHT_JOIN @streams AS s FORCE INDEX (PRIMARY)
    ON s.workflow_uuid = r.id AND s.function_id >= r.cut
GROUP BY s.workflow_uuid, s."key";

-- name: run_retry_cut_streams
DELETE s FROM {rows} AS r STRAIGHT_JOIN @workflow_status AS w FORCE INDEX (PRIMARY)
    ON w.workflow_uuid = r.id AND w.change_key = r.token AND w.status = 'DELAYED'
STRAIGHT_JOIN @streams AS s FORCE INDEX (PRIMARY)
    ON s.workflow_uuid = r.id AND s.function_id >= r.cut;

-- name: runs_release
-- The answer is only for the log: what was released is ENQUEUED in the same transaction's eyes.
UPDATE (
    SELECT q.workflow_uuid FROM @workflow_status AS q
    WHERE q.status = 'PENDING' AND q.incarnation = :incarnation
      AND NOT EXISTS (SELECT 1 FROM @executors AS e WHERE e.incarnation = q.incarnation)
    ORDER BY q.created_at
    LIMIT :most
    FOR UPDATE SKIP LOCKED
) AS c STRAIGHT_JOIN @workflow_status AS w FORCE INDEX (PRIMARY) ON w.workflow_uuid = c.workflow_uuid
SET w.status = 'ENQUEUED', w.owner_xid = NULL, w.incarnation = NULL, w.updated_at = {now_ms},
    w.recovery_attempts = w.recovery_attempts + 1, w.queue_name = COALESCE(w.queue_name, :internal_queue);

-- name: version_register
INSERT INTO @application_versions (version_id, version_name, version_timestamp, created_at)
SELECT :version_id, :version_name, {latest_yet}, {now_ms} FROM @application_versions AS v
ON DUPLICATE KEY UPDATE version_name = @application_versions.version_name;

-- name: version_has
INSERT INTO @application_workflows (workflow_name, version_name)
SELECT r.workflow, r.version FROM {rows} AS r ORDER BY r.workflow
ON DUPLICATE KEY UPDATE version_name = @application_workflows.version_name;

-- name: version_set_latest
UPDATE @application_versions AS a JOIN (
    SELECT {latest_yet} AS latest FROM @application_versions AS v
) AS m
SET a.version_timestamp = m.latest
WHERE a.version_name = :version_name;

-- name: database_here
SELECT
    DATABASE() AS name,
    (SELECT m."value" FROM @holdfast_meta AS m WHERE m."key" = 'database_id') AS mark;
