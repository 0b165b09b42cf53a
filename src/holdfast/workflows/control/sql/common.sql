-- What people ask of runs: cancel, resume, rewind, fork, delete, set delay, attributes. PostgreSQL and SQLite share this
-- text; MariaDB/MySQL has its own under the same names.
--
-- A change first holds its runs ({hold_runs}: a row lock in id order, empty on SQLite, whose single writer is lock
-- enough), then writes. So whatever writes for the run under its token has committed before, or finds the token gone
-- after. The condition on the status stands in the write as well, so that no statement depends on another for being
-- safe; `status || ''` keeps PostgreSQL from walking a partial index.
--
-- change_key is the key of the last change that somebody asked for: after a commit whose reply was lost it tells whether
-- it is there.
--
-- cancel_key is what runs have in common that were cancelled together, so that they can go on together: the key of the
-- change, or, of those whose time was over, the deadline that children have from their parents.

-- fragment: hold_runs
ORDER BY w.workflow_uuid FOR UPDATE OF w

-- fragment: hold_free_runs
ORDER BY w.workflow_uuid FOR UPDATE OF w SKIP LOCKED

-- name: runs_hold
-- rows: id text
SELECT
    w.workflow_uuid, w.status, w.executions, w.wait_kind, w.parent_workflow_id, w.owner_xid, w.creation_key, w.change_key,
    w.cancel_key, w.attributes
FROM {rows} AS r JOIN @workflow_status AS w ON w.workflow_uuid = r.id
{hold_runs};

-- name: runs_stand
-- rows: id text
-- Where runs stand, without holding them.
SELECT w.workflow_uuid, w.status, w.creation_key
FROM {rows} AS r JOIN @workflow_status AS w ON w.workflow_uuid = r.id;

-- name: runs_children
-- rows: id text
-- The children of runs that are held: a start under way has committed, a later one finds no token.
SELECT w.workflow_uuid FROM {rows} AS r JOIN @workflow_status AS w ON w.parent_workflow_id = r.id;

-- name: runs_named
-- rows: id text
-- Which of these runs are children in the records of a run that has not ended, and may ask for their results. Each is
-- looked up by itself, as in runs_delete.
SELECT found.id AS workflow_uuid, found.named_by FROM (
    SELECT r.id, (
        SELECT min(o.workflow_uuid) FROM @operation_outputs AS o
        WHERE o.child_workflow_id = r.id
          AND (SELECT u.status FROM @workflow_status AS u WHERE u.workflow_uuid = o.workflow_uuid)
              NOT IN ('SUCCESS', 'ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED')
    ) AS named_by FROM {rows} AS r
) AS found WHERE found.named_by IS NOT NULL;

-- name: runs_cancel
-- rows: id text
-- PENDING, ENQUEUED, DELAYED -> CANCELLED.
UPDATE @workflow_status AS w
SET status = 'CANCELLED', owner_xid = NULL, incarnation = NULL, queue_name = NULL, deduplication_id = NULL,
    completed_at = {now_ms}, updated_at = {now_ms}, change_key = :key, wait_kind = NULL,
    cancel_key = COALESCE(CAST(:cancel_key AS text), 'deadline ' || w.workflow_deadline_epoch_ms)
FROM {rows} AS r
WHERE w.workflow_uuid = r.id AND w.status || '' IN ('PENDING', 'ENQUEUED', 'DELAYED');

-- name: runs_overdue
-- Runs whose deadline has passed, the longest overdue first; only a look.
SELECT w.workflow_uuid FROM @workflow_status AS w
WHERE w.workflow_deadline_epoch_ms <= {now_ms} AND w.status IN ('PENDING', 'ENQUEUED', 'DELAYED')
ORDER BY w.workflow_deadline_epoch_ms
LIMIT :most;

-- name: runs_hold_overdue
-- rows: id text
-- A run that somebody else holds is passed over: it is found again by the next look.
SELECT w.workflow_uuid, w.status, w.change_key,
    CASE WHEN w.workflow_deadline_epoch_ms <= {now_ms} THEN 1 ELSE 0 END AS overdue
FROM {rows} AS r JOIN @workflow_status AS w ON w.workflow_uuid = r.id
{hold_free_runs};

-- name: runs_resume
-- rows: id text
-- CANCELLED, MAX_RECOVERY_ATTEMPTS_EXCEEDED -> ENQUEUED. The start time is kept, so that the claim sets no new deadline;
-- a run that never began has none, and gets its whole time when it is claimed.
UPDATE @workflow_status AS w
SET status = 'ENQUEUED', owner_xid = NULL, incarnation = NULL, recovery_attempts = 0,
    workflow_deadline_epoch_ms = NULL, error = NULL, output_serialization = NULL, completed_at = NULL,
    delay_until_epoch_ms = NULL, deduplication_id = NULL, queue_name = :queue_name,
    queue_partition_key = COALESCE(:partition_key, w.queue_partition_key),
    updated_at = {now_ms}, change_key = :key, cancel_key = NULL, wait_kind = NULL
FROM {rows} AS r
WHERE w.workflow_uuid = r.id AND w.status || '' IN ('CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED');

-- name: runs_rewind
-- rows: id text
-- Ended -> ENQUEUED under the same id, one generation on. Executions are kept: by them the claim knows that there may be
-- a history to load.
UPDATE @workflow_status AS w
SET status = 'ENQUEUED', generation = w.generation + 1, owner_xid = NULL, incarnation = NULL, recovery_attempts = 0,
    retries = 0, output = NULL, error = NULL, output_serialization = NULL, completed_at = NULL,
    started_at_epoch_ms = NULL, workflow_deadline_epoch_ms = NULL, delay_until_epoch_ms = NULL,
    deduplication_id = NULL, queue_name = :queue_name, queue_partition_key = :partition_key,
    application_version = COALESCE(:application_version, w.application_version),
    updated_at = {now_ms}, change_key = :key, cancel_key = NULL, wait_kind = NULL
FROM {rows} AS r
WHERE w.workflow_uuid = r.id
  AND w.status || '' IN ('SUCCESS', 'ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED');

-- name: steps_cut
-- rows: id text
-- The records of rewound runs from a position on. Positions are handed out when operations begin, and a branch begins
-- an operation when the one before is recorded: what is left is a prefix of every branch. A part with a time limit of
-- which the verdict is gone is gone back into: the end of its time goes too, and is set anew.
DELETE FROM @operation_outputs
WHERE workflow_uuid IN (SELECT r.id FROM {rows} AS r) AND function_id >= :start_step;
DELETE FROM @operation_outputs AS o
WHERE o.workflow_uuid IN (SELECT r.id FROM {rows} AS r) AND o.function_name = 'holdfast.timeout'
  AND (SELECT count(*) FROM @operation_outputs AS v
       WHERE v.workflow_uuid = o.workflow_uuid AND v.identity = {verdict_of_timeout} AND v.identity LIKE '%.%') = 0;

-- name: streams_cut
-- rows: id text
-- What those operations have written to streams, the ends of streams among it.
DELETE FROM @streams
WHERE workflow_uuid IN (SELECT r.id FROM {rows} AS r) AND function_id >= :start_step;

-- name: runs_fork
-- rows: id text, new_id text, creation_key text
-- Any -> a new run, ENQUEUED. Where records are copied it has been executed once, so that the claim loads them.
INSERT INTO @workflow_status (
    workflow_uuid, status, name, class_name, config_name, inputs, serialization, creation_key, fingerprint,
    workflow_timeout_ms, attributes, authenticated_user, assumed_role, authenticated_roles, application_version,
    application_id, queue_name, queue_partition_key, priority, forked_from, executions, created_at, updated_at
)
SELECT
    r.new_id, 'ENQUEUED', w.name, w.class_name, w.config_name, w.inputs, w.serialization, r.creation_key, w.fingerprint,
    w.workflow_timeout_ms, w.attributes, w.authenticated_user, w.assumed_role, w.authenticated_roles,
    COALESCE(:application_version, w.application_version), w.application_id, :queue_name, :partition_key, w.priority,
    w.workflow_uuid, CASE WHEN :start_step > 1 THEN 1 ELSE 0 END, {now_ms}, {now_ms}
FROM {rows} AS r JOIN @workflow_status AS w ON w.workflow_uuid = r.id;

-- name: steps_copy
-- rows: id text, new_id text
-- The records below a position: a prefix of every branch, as in steps_cut. The copies have no owner token: nobody's
-- execution of the new run has written them. Nor have they a fingerprint: what an operation was given may say which run
-- it is, and that is another one now. The end of a time limit is left out where its verdict is, as in steps_cut.
INSERT INTO @operation_outputs (
    workflow_uuid, function_id, function_name, identity, output, error, child_workflow_id,
    serialization, started_at_epoch_ms, completed_at_epoch_ms
)
SELECT
    r.new_id, o.function_id, o.function_name, o.identity, o.output, o.error, o.child_workflow_id,
    o.serialization, o.started_at_epoch_ms, o.completed_at_epoch_ms
FROM {rows} AS r JOIN @operation_outputs AS o ON o.workflow_uuid = r.id
WHERE o.function_id < :start_step AND (
    o.function_name <> 'holdfast.timeout'
    OR (SELECT count(*) FROM @operation_outputs AS v
        WHERE v.workflow_uuid = o.workflow_uuid AND v.identity = {verdict_of_timeout} AND v.identity LIKE '%.%'
          AND v.function_id < :start_step) = 1
);

-- fragment: verdict_of_timeout
o.identity || '.0'

-- name: streams_copy
-- rows: id text, new_id text
-- What the operations whose records are copied have written to streams. What is written live by one that has no record
-- yet is not among it: the new run does that operation itself.
INSERT INTO @streams (workflow_uuid, "key", "offset", value, function_id, serialization)
SELECT
    r.new_id, s."key",
    row_number() OVER (PARTITION BY r.n, s."key" ORDER BY s."offset") - 1,
    s.value, s.function_id, s.serialization
FROM {rows} AS r
JOIN @streams AS s ON s.workflow_uuid = r.id
JOIN @operation_outputs AS o ON o.workflow_uuid = r.id AND o.function_id = s.function_id
WHERE s.function_id < :start_step AND (s.serialization IS NOT NULL OR s.value = :closed);

-- name: runs_forked
-- rows: id text
UPDATE @workflow_status AS w SET was_forked_from = TRUE
FROM {rows} AS r WHERE w.workflow_uuid = r.id;

-- name: runs_delete
-- rows: id text
-- Ended, and a child in no record of a run that has not -> none. What is recorded of the runs goes with them, by a
-- foreign key or (PostgreSQL) a trigger. The count, and the status of a record's run by its key, keep PostgreSQL from a
-- scan that it expects to end soon.
DELETE FROM @workflow_status AS w
WHERE w.workflow_uuid IN (SELECT r.id FROM {rows} AS r)
  AND w.status || '' IN ('SUCCESS', 'ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED')
  AND (SELECT count(*) FROM @operation_outputs AS o
       WHERE o.child_workflow_id = w.workflow_uuid
         AND (SELECT u.status FROM @workflow_status AS u WHERE u.workflow_uuid = o.workflow_uuid)
             NOT IN ('SUCCESS', 'ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED')) = 0;

-- name: runs_set_delay
-- rows: id text
-- DELAYED until a moment, never started -> DELAYED until another one.
UPDATE @workflow_status AS w
SET delay_until_epoch_ms = COALESCE(CAST(:until_ms AS bigint), {now_ms} + CAST(:delay_ms AS bigint)),
    updated_at = {now_ms}, change_key = :key
FROM {rows} AS r
WHERE w.workflow_uuid = r.id AND w.status || '' = 'DELAYED' AND w.executions = 0
  AND w.wait_kind IS NULL;

-- name: runs_attributes
-- rows: id text, attributes text
UPDATE @workflow_status AS w SET attributes = r.attributes, updated_at = {now_ms}, change_key = :key
FROM {rows} AS r WHERE w.workflow_uuid = r.id;
