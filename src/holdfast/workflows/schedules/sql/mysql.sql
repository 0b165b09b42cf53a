-- A write that joins begins with what is wanted (STRAIGHT_JOIN) and finds its rows by their key (FORCE INDEX): a small
-- table would be walked from end to end, and every row on the way waited for that another process has locked.

-- fragment: is_not_left_out
LOCATE(CONCAT('|', s.schedule_id, '@', s.version, '|'), :left_out) = 0

-- fragment: hold
FOR UPDATE

-- fragment: hold_free
FOR UPDATE SKIP LOCKED

-- fragment: unless_there
ON DUPLICATE KEY UPDATE schedule_name = @workflow_schedules.schedule_name

-- fragment: by_due
-- Said by name: a small table would be walked, and every schedule in it held.
FORCE INDEX (idx_workflow_schedules_due)

-- name: schedules_advance
UPDATE {rows} AS r STRAIGHT_JOIN @workflow_schedules AS s FORCE INDEX (PRIMARY) ON s.schedule_id = r.id
SET s.next_due_epoch_ms = r.due, s.last_fired_at = COALESCE(r.fired, s.last_fired_at),
    s.last_run_id = COALESCE(r.run_id, s.last_run_id)
WHERE s.next_due_epoch_ms = r.was AND s.status = 'ACTIVE';

-- name: runs_link
UPDATE {rows} AS r STRAIGHT_JOIN @workflow_status AS w FORCE INDEX (PRIMARY) ON w.workflow_uuid = r.id
SET w.wait_kind = 'chain'
WHERE w.creation_key = r.creation_key AND w.status = 'DELAYED';

-- name: runs_note_links
INSERT INTO @workflow_waits (workflow_uuid, wait_kind, wait_key)
SELECT r.id, 'chain', r.awaited
FROM {rows} AS r STRAIGHT_JOIN @workflow_status AS w FORCE INDEX (PRIMARY) ON w.workflow_uuid = r.id
WHERE w.creation_key = r.creation_key AND w.status = 'DELAYED'
ON DUPLICATE KEY UPDATE wait_key = @workflow_waits.wait_key;
