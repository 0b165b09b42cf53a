-- MariaDB/MySQL: what is joined begins with what is wanted (STRAIGHT_JOIN) and finds rows by their key (FORCE INDEX): a
-- small table would be walked from end to end, and every row on the way waited for that somebody else has locked.

-- name: live_guard
SELECT r.id, r.identity, o.function_id AS recorded
FROM {rows} AS r
STRAIGHT_JOIN @workflow_status AS w FORCE INDEX (PRIMARY) ON w.workflow_uuid = r.id AND w.owner_xid = r.token
LEFT JOIN @operation_outputs AS o FORCE INDEX (PRIMARY)
    ON o.workflow_uuid = r.id AND o.function_id = r.position AND o.identity = r.identity
WHERE w.status = 'PENDING'
ORDER BY w.workflow_uuid
LOCK IN SHARE MODE;

-- name: runs_hold_to_ask
SELECT w.workflow_uuid FROM {rows} AS r STRAIGHT_JOIN @workflow_status AS w FORCE INDEX (PRIMARY)
    ON w.workflow_uuid = r.id
FOR UPDATE;

-- name: attempts_of_runs
SELECT
    a.workflow_uuid AS id, a.identity, a."key" AS stream, a.owner_xid, a.attempt, a.function_id, a.first_offset
FROM {rows} AS r
STRAIGHT_JOIN @workflow_status AS w FORCE INDEX (PRIMARY) ON w.workflow_uuid = r.id AND w.owner_xid = r.token
STRAIGHT_JOIN @stream_attempts AS a FORCE INDEX (PRIMARY) ON a.workflow_uuid = r.id AND a.owner_xid <> r.token
ORDER BY w.workflow_uuid
LOCK IN SHARE MODE;

-- name: attempts_forget
DELETE a FROM {rows} AS r STRAIGHT_JOIN @stream_attempts AS a FORCE INDEX (PRIMARY)
    ON a.workflow_uuid = r.id AND a.identity = r.identity AND a."key" = r.stream;

-- name: entries_throw
DELETE s FROM {rows} AS r STRAIGHT_JOIN @streams AS s FORCE INDEX (PRIMARY)
    ON s.workflow_uuid = r.id AND s."key" = r.stream AND s."offset" >= r.first_offset
    AND s.function_id = r.position AND s.attempt = r.attempt;
