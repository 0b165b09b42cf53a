-- SQLite tells whether an array has a value by a subquery, and compares text letter by letter as it is.

-- name: retention_boundary
SELECT w.created_at, w.workflow_uuid FROM @workflow_status AS w
WHERE w.status IN (SELECT value FROM json_each(:statuses))
  AND (:any_name = 1 OR w.name IN (SELECT value FROM json_each(:names)))
ORDER BY w.created_at DESC, w.workflow_uuid DESC
LIMIT 1 OFFSET :skipped;

-- name: retention_walk
SELECT
    w.workflow_uuid, w.status, w.name, w.created_at, COALESCE(w.completed_at, w.updated_at) AS ended_at,
    CASE WHEN EXISTS (
        SELECT 1 FROM @workflow_status AS p
        WHERE p.workflow_uuid = w.parent_workflow_id
          AND p.status NOT IN ('SUCCESS', 'ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED')
    ) OR {times_named} > 0 THEN 1 ELSE 0 END AS needed
FROM @workflow_status AS w
WHERE w.created_at >= :from_ms AND w.created_at < :to_ms AND COALESCE(w.completed_at, w.updated_at) <= :cutoff_ms
  AND w.status IN (SELECT value FROM json_each(:statuses))
  AND (:any_name = 1 OR w.name IN (SELECT value FROM json_each(:names)))
ORDER BY w.created_at;
