-- name: run_put_away
UPDATE {rows} AS r STRAIGHT_JOIN @workflow_status AS w FORCE INDEX (PRIMARY)
    ON w.workflow_uuid = r.id AND w.owner_xid = r.token
SET w.status = 'DELAYED', w.owner_xid = NULL, w.incarnation = NULL, w.updated_at = {now_ms}, w.change_key = r.token,
    w.delay_until_epoch_ms = r.until_ms, w.wait_kind = r.kind, w.queue_name = COALESCE(w.queue_name, :internal_queue)
WHERE w.status = 'PENDING';
SELECT w.workflow_uuid FROM {rows} AS r
JOIN @workflow_status AS w ON w.workflow_uuid = r.id AND w.change_key = r.token AND w.status = 'DELAYED';

-- name: waits_forget
DELETE o FROM {rows} AS r STRAIGHT_JOIN @workflow_status AS w FORCE INDEX (PRIMARY)
    ON w.workflow_uuid = r.id AND w.change_key = r.token
STRAIGHT_JOIN @workflow_waits AS o FORCE INDEX (PRIMARY) ON o.workflow_uuid = r.id AND o.wait_kind <> 'chain';

-- name: waits_note
INSERT INTO @workflow_waits (workflow_uuid, wait_kind, wait_key, awaited_uuid, awaited_key)
SELECT r.id, r.kind, r.awaited, r.awaited_uuid, r.awaited_key
FROM {rows} AS r STRAIGHT_JOIN @workflow_status AS w FORCE INDEX (PRIMARY)
    ON w.workflow_uuid = r.id AND w.change_key = r.token
WHERE w.status = 'DELAYED'
ON DUPLICATE KEY UPDATE wait_key = @workflow_waits.wait_key;

-- name: waits_wake
UPDATE {rows} AS r STRAIGHT_JOIN @workflow_status AS w FORCE INDEX (PRIMARY) ON w.workflow_uuid = r.id
SET w.status = 'ENQUEUED', w.delay_until_epoch_ms = NULL, w.updated_at = {now_ms}
WHERE w.status = 'DELAYED' AND w.wait_kind IS NOT NULL;

-- name: waits_clear
DELETE s FROM {rows} AS r STRAIGHT_JOIN @workflow_waits AS s FORCE INDEX (PRIMARY)
    ON s.workflow_uuid = r.id AND s.wait_kind = r.kind AND s.wait_key = r.awaited
LEFT JOIN @workflow_status AS w
    ON w.workflow_uuid = s.workflow_uuid AND w.status = 'DELAYED' AND w.wait_kind IS NOT NULL
WHERE w.workflow_uuid IS NULL;
