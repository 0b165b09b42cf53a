-- MariaDB/MySQL cannot delete from a table that a subquery reads, so the parent is joined, and so are those runs that are
-- named by others: a derived table, which is worked out before. The join begins with what is
-- wanted (STRAIGHT_JOIN) and finds the runs by their key (FORCE INDEX): walking the table it would wait for every row
-- that an executor has locked. It cannot skip locked rows without locking the parents for writing as well; ended runs
-- are hardly ever locked, and two who prune take them in the same order.

-- fragment: wanted_status
JSON_CONTAINS(:statuses, JSON_QUOTE(w.status))

-- fragment: wanted_name
JSON_CONTAINS(:names, JSON_QUOTE(w.name))

-- name: retention_delete
DELETE w FROM {rows} AS r
STRAIGHT_JOIN @workflow_status AS w FORCE INDEX (PRIMARY) ON w.workflow_uuid = r.id AND w.status = r.status
LEFT JOIN @workflow_status AS p FORCE INDEX (PRIMARY) ON p.workflow_uuid = w.parent_workflow_id
LEFT JOIN (
    SELECT DISTINCT o.child_workflow_id FROM {rows} AS n
    STRAIGHT_JOIN @operation_outputs AS o FORCE INDEX (idx_operation_outputs_child) ON o.child_workflow_id = n.id
    STRAIGHT_JOIN @workflow_status AS u FORCE INDEX (PRIMARY) ON u.workflow_uuid = o.workflow_uuid
    WHERE u.status NOT IN ('SUCCESS', 'ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED')
) AS named ON named.child_workflow_id = w.workflow_uuid
WHERE COALESCE(w.completed_at, w.updated_at) <= :cutoff_ms AND named.child_workflow_id IS NULL
  AND (p.workflow_uuid IS NULL OR p.status IN ('SUCCESS', 'ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED'));
