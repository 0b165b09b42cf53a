-- MariaDB/MySQL writes first and then reads what came of it, in the same transaction. The indexes are said by name: what
-- waits must not be sorted for a claim, nor walked from end to end, waiting for every row that somebody has locked.

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
SELECT {claimed_run}
FROM @workflow_status AS w FORCE INDEX (idx_workflow_status_owner)
WHERE w.incarnation = :incarnation AND w.status = 'PENDING'
  AND w.owner_xid LIKE CONCAT(:claim, '.%')

-- fragment: unless_there
ON DUPLICATE KEY UPDATE name = @queues.name

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
DELETE s FROM {rows} AS r STRAIGHT_JOIN @queue_starts AS s FORCE INDEX (PRIMARY) ON s.token = r.token;
