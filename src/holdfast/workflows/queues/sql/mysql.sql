-- MariaDB/MySQL writes first and then reads what came of it, in the same transaction. The indexes are said by name: what
-- waits must not be sorted for a claim, nor walked from end to end, waiting for every row that somebody has locked.

-- fragment: record_overhead
400

-- fragment: bytes_of_output
octet_length(o.output)

-- fragment: bytes_of_error
octet_length(o.error)

-- fragment: q_waits
q.status = 'ENQUEUED'

-- fragment: w_waits
w.status = 'ENQUEUED'

-- fragment: hold
FOR UPDATE

-- fragment: hold_free
FOR UPDATE SKIP LOCKED

-- fragment: by_age
FORCE INDEX (idx_workflow_status_queue_age)

-- fragment: by_partition
FORCE INDEX (idx_workflow_status_partition_age)

-- fragment: by_queue_age
FORCE INDEX (idx_workflow_status_queue_age)

-- fragment: by_queue_priority
FORCE INDEX (idx_workflow_status_queue)

-- fragment: by_partition_age
FORCE INDEX (idx_workflow_status_partition_age)

-- fragment: by_partition_priority
FORCE INDEX (idx_workflow_status_partition_age)

-- fragment: unlimited
NOT EXISTS (
    SELECT 1 FROM @queues AS l
    WHERE l.name = :queue_name
      AND (l.paused OR l.partition_queue OR l.concurrency IS NOT NULL OR l.rate_limit_max IS NOT NULL)
)

-- fragment: cap
-- A name is looked for among those there are, and only one that is found is made a path: another text might be none, and
-- end the statement for all that waits.
CASE WHEN JSON_CONTAINS(JSON_KEYS(:caps), JSON_QUOTE(q.name))
     THEN CAST(JSON_EXTRACT(:caps, CONCAT('$."', q.name, '"')) AS SIGNED) END

-- fragment: fitting
AND {cap} IS NOT NULL
AND (q.config_name IS NULL OR JSON_CONTAINS(JSON_KEYS(:caps), JSON_QUOTE(CONCAT(q.class_name, '/', q.config_name))))
AND (q.application_version IS NULL OR JSON_CONTAINS(:versions, JSON_QUOTE(q.application_version)))
AND (:suspects = 1 OR q.recovery_attempts = 0
     OR q.recovery_attempts * 2 < {cap} OR q.recovery_attempts > {cap})

-- fragment: partition_age_order
-- The index goes on by id. It is too long for the server to know that, and the runs would be sorted if it were asked for.
q.created_at

-- fragment: claim
UPDATE (
    SELECT q.workflow_uuid FROM @workflow_status AS q

-- fragment: claimed
    LIMIT :most
    FOR UPDATE SKIP LOCKED
) AS c STRAIGHT_JOIN @workflow_status AS w FORCE INDEX (PRIMARY) ON w.workflow_uuid = c.workflow_uuid
SET w.status = 'PENDING', w.owner_xid = CONCAT(:claim, '.', w.workflow_uuid), w.incarnation = :incarnation,
    w.executor_id = CASE WHEN w.recovery_attempts > CAST(JSON_EXTRACT(:caps, CONCAT('$."', w.name, '"')) AS SIGNED)
                         THEN w.executor_id ELSE :executor_id END,
    w.application_version = COALESCE(w.application_version, :application_version),
    w.workflow_deadline_epoch_ms = CASE
        -- A longer one than a hundred years, which only other programs write, is none: the sum might be too large.
        WHEN w.started_at_epoch_ms IS NULL AND w.workflow_timeout_ms <= 3153600000000
        THEN CASE WHEN w.workflow_deadline_epoch_ms < {now_ms} + w.workflow_timeout_ms
             THEN w.workflow_deadline_epoch_ms ELSE {now_ms} + w.workflow_timeout_ms END
        ELSE w.workflow_deadline_epoch_ms END,
    w.started_at_epoch_ms = COALESCE(w.started_at_epoch_ms, {now_ms}),
    w.executions = w.executions + 1, w.updated_at = {now_ms};
SELECT
    w.workflow_uuid, w.status, w.name, w.class_name, w.config_name, w.serialization, w.owner_xid,
    octet_length(w.inputs) AS inputs_bytes, CASE WHEN octet_length(w.inputs) <= 65536 THEN w.inputs END AS inputs,
    w.recovery_attempts, w.generation, w.retries, w.workflow_deadline_epoch_ms, w.parent_workflow_id, w.executions,
    w.executor_id, w.queue_name, w.queue_partition_key, w.priority, w.created_at, w.wait_kind, w.creation_key,
    w.authenticated_user, w.assumed_role, w.authenticated_roles, w.application_version
FROM @workflow_status AS w FORCE INDEX (idx_workflow_status_owner)
WHERE w.incarnation = :incarnation AND w.status = 'PENDING'
  AND w.owner_xid LIKE CONCAT(:claim, '.%')

-- name: queue_register
INSERT INTO @queues (
    queue_id, name, concurrency, worker_concurrency, rate_limit_max, rate_limit_period_sec, priority_enabled,
    partition_queue, partition_concurrency, partition_rate_limit_max, partition_rate_limit_period_sec,
    polling_interval_sec, created_at, updated_at
) VALUES (
    :queue_id, :name, :concurrency, :worker_concurrency, :rate_limit_max, :rate_limit_period_sec, :priority_enabled,
    :partition_queue, :partition_concurrency, :partition_rate_limit_max, :partition_rate_limit_period_sec,
    :polling_interval_sec, {now_ms}, {now_ms}
) ON DUPLICATE KEY UPDATE name = @queues.name;

-- name: runs_due
UPDATE (
    SELECT q.workflow_uuid FROM @workflow_status AS q FORCE INDEX (idx_workflow_status_delayed)
    WHERE q.status = 'DELAYED' AND q.delay_until_epoch_ms <= {now_ms}
    ORDER BY q.delay_until_epoch_ms
    LIMIT :most
    FOR UPDATE SKIP LOCKED
) AS c STRAIGHT_JOIN @workflow_status AS w FORCE INDEX (PRIMARY) ON w.workflow_uuid = c.workflow_uuid
SET w.status = 'ENQUEUED', w.updated_at = {now_ms},
    w.deduplication_id = CASE WHEN w.is_debounced THEN NULL ELSE w.deduplication_id END;

-- name: partitions_waiting
-- Steps from one key to the next by itself when all columns of the index up to the key are grouped by. In a recursive
-- query it would begin at the first key each time.
SELECT w.queue_partition_key AS partition_key FROM @workflow_status AS w {by_partition}
WHERE {w_waits} AND w.queue_name = :queue_name AND w.queue_partition_key IS NOT NULL
  [[ AND w.queue_partition_key > :after ]]
  [[ AND w.queue_partition_key <= :until ]]
GROUP BY w.status, w.queue_name, w.queue_partition_key
ORDER BY w.queue_partition_key
LIMIT :most;

-- name: starts_take_back
-- rows: token text
DELETE s FROM {rows} AS r STRAIGHT_JOIN @queue_starts AS s FORCE INDEX (PRIMARY) ON s.token = r.token;
