-- name: runs_claim
UPDATE @workflow_status AS w
SET status = CASE WHEN w.recovery_attempts > json_extract(:caps, '$."' || w.name || '"')
                  THEN 'MAX_RECOVERY_ATTEMPTS_EXCEEDED' ELSE 'PENDING' END,
    owner_xid = :claim || '.' || w.workflow_uuid, incarnation = :incarnation,
    executor_id = CASE WHEN w.recovery_attempts > json_extract(:caps, '$."' || w.name || '"') THEN w.executor_id ELSE :executor_id END,
    application_version = COALESCE(w.application_version, :application_version),
    started_at_epoch_ms = COALESCE(w.started_at_epoch_ms, {now_ms}),
    workflow_deadline_epoch_ms = CASE
        WHEN w.started_at_epoch_ms IS NULL AND w.workflow_timeout_ms IS NOT NULL
        THEN COALESCE(w.workflow_deadline_epoch_ms, {now_ms} + w.workflow_timeout_ms)
        ELSE w.workflow_deadline_epoch_ms END,
    executions = w.executions + 1, updated_at = {now_ms}
WHERE w.workflow_uuid IN (
    SELECT q.workflow_uuid FROM @workflow_status AS q
    WHERE q.status = 'ENQUEUED' AND q.queue_name = :queue_name
      AND json_extract(:caps, '$."' || q.name || '"') IS NOT NULL
      AND (q.config_name IS NULL
           OR json_extract(:caps, '$."' || q.class_name || '/' || q.config_name || '"') IS NOT NULL)
      AND (q.application_version IS NULL OR q.application_version IN (SELECT value FROM json_each(:versions)))
      AND (:suspects = 1 OR q.recovery_attempts = 0 OR q.recovery_attempts * 2 < json_extract(:caps, '$."' || q.name || '"')
           OR q.recovery_attempts > json_extract(:caps, '$."' || q.name || '"'))
    ORDER BY q.priority, q.created_at, q.workflow_uuid
    LIMIT :most
)
RETURNING
    workflow_uuid, status, name, class_name, config_name, inputs, serialization, owner_xid,
    recovery_attempts, generation, retries, workflow_deadline_epoch_ms, parent_workflow_id, executions,
    authenticated_user, assumed_role, authenticated_roles, application_version, executor_id;
