-- One writer is lock enough here. The index of a claim is said by name: without statistics another might be taken, and
-- all that waits sorted.

-- fragment: bytes_of_output
length(CAST(o.output AS BLOB))

-- fragment: bytes_of_error
length(CAST(o.error AS BLOB))

-- fragment: hold

-- fragment: hold_free

-- fragment: hold_free_runs

-- fragment: by_delay
INDEXED BY idx_workflow_status_delayed

-- fragment: by_age
INDEXED BY idx_workflow_status_queue_age

-- fragment: by_partition
INDEXED BY idx_workflow_status_partition_age

-- fragment: by_queue_age
INDEXED BY idx_workflow_status_queue_age

-- fragment: by_queue_priority
INDEXED BY idx_workflow_status_queue

-- fragment: by_partition_age
INDEXED BY idx_workflow_status_partition_age

-- fragment: by_partition_priority
INDEXED BY idx_workflow_status_partition

-- fragment: claim
UPDATE @workflow_status AS w
SET status = 'PENDING', owner_xid = :claim || '.' || w.workflow_uuid, incarnation = :incarnation,
    executor_id = CASE WHEN w.recovery_attempts > 0
                        AND w.recovery_attempts > (SELECT value FROM json_each(:caps) WHERE key = w.name)
                       THEN w.executor_id ELSE :executor_id END,
    {begun}
WHERE w.workflow_uuid IN (
    SELECT q.workflow_uuid FROM @workflow_status AS q

-- fragment: fitting
AND q.name IN (SELECT key FROM json_each(:caps))
AND (q.config_name IS NULL OR q.class_name || '/' || q.config_name IN (SELECT key FROM json_each(:caps)))
AND (q.application_version IS NULL OR q.application_version IN (SELECT value FROM json_each(:versions)))
AND (:suspects = 1 OR q.recovery_attempts = 0
     OR q.recovery_attempts * 2 < (SELECT value FROM json_each(:caps) WHERE key = q.name)
     OR q.recovery_attempts > (SELECT value FROM json_each(:caps) WHERE key = q.name))

-- fragment: claimed
    LIMIT :most
)
RETURNING
    workflow_uuid, status, name, class_name, config_name, serialization, owner_xid,
    length(CAST(inputs AS BLOB)) AS inputs_bytes,
    CASE WHEN length(CAST(inputs AS BLOB)) <= 65536 THEN inputs END AS inputs,
    recovery_attempts, generation, retries, workflow_deadline_epoch_ms, parent_workflow_id, executions,
    executor_id, queue_name, queue_partition_key, priority, created_at, wait_kind, creation_key,
    authenticated_user, assumed_role, authenticated_roles, application_version
