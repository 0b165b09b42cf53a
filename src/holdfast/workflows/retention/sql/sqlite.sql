-- SQLite tells whether an array has a value by a subquery, and compares text letter by letter as it is.

-- name: retention_boundary
SELECT w.created_at, w.workflow_uuid FROM @workflow_status AS w
WHERE w.status IN (SELECT value FROM json_each(:statuses))
  AND (:any_name = 1 OR w.name IN (SELECT value FROM json_each(:names)))
ORDER BY w.created_at DESC, w.workflow_uuid DESC
LIMIT 1 OFFSET :skipped;

-- name: retention_walk
SELECT
    w.workflow_uuid, w.status, w.name, w.created_at, w.ended_at, w.place,
    CASE WHEN EXISTS (
        SELECT 1 FROM @workflow_status AS p
        WHERE p.workflow_uuid = w.parent_workflow_id
          AND p.status NOT IN ('SUCCESS', 'ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED')
    ) THEN 1 ELSE 0 END AS parent_lives
FROM (
    SELECT
        q.workflow_uuid, q.status, q.name, q.created_at, q.parent_workflow_id,
        COALESCE(q.completed_at, q.updated_at) AS ended_at,
        row_number() OVER (ORDER BY q.created_at, q.workflow_uuid) AS place
    FROM @workflow_status AS q
    WHERE q.created_at >= :after_ms AND q.created_at <= :until_ms
      AND (q.created_at > :after_ms OR q.workflow_uuid > :after_id)
    ORDER BY q.created_at, q.workflow_uuid
    LIMIT :most
) AS w
WHERE w.place = :most OR (
    w.ended_at <= :cutoff_ms AND w.status IN (SELECT value FROM json_each(:statuses))
    AND (:any_name = 1 OR w.name IN (SELECT value FROM json_each(:names)))
)
ORDER BY w.place;
