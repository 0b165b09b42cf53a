-- PostgreSQL thinks the records that name a run many while it has not counted them. So what is to go is found first, run
-- by run, and then deleted by its key, whatever that was expected to cost.

-- fragment: wanted_status
jsonb_exists(CAST(:statuses AS jsonb), w.status)

-- fragment: wanted_name
jsonb_exists(CAST(:names AS jsonb), w.name)

-- fragment: letters
COLLATE "C"

-- name: retention_delete
DELETE FROM @workflow_status
WHERE workflow_uuid = ANY (ARRAY(
    SELECT w.workflow_uuid FROM {rows} AS r JOIN @workflow_status AS w ON w.workflow_uuid = r.id AND w.status = r.status
    WHERE COALESCE(w.completed_at, w.updated_at) <= :cutoff_ms
      AND COALESCE((SELECT p.status FROM @workflow_status AS p WHERE p.workflow_uuid = w.parent_workflow_id), 'SUCCESS')
          IN ('SUCCESS', 'ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED')
      AND {times_named} = 0
    FOR UPDATE OF w SKIP LOCKED
));
