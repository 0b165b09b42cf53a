-- Runs, their steps and the executors that own them. PostgreSQL and SQLite share this text; MariaDB/MySQL,
-- whose upserts and counts differ, has its own under the same names. The writes of the pipeline are judged by how
-- many rows they touch: as many as were handed over, and all is well; fewer, and each row's fate is looked up.
--
-- Every write on behalf of a run is guarded by its owner token (owner_xid), and the guard holds the run's row until
-- commit: {share_runs} is the lock that does it, empty on SQLite, whose single writer is lock enough.
--
-- A guard finds its run by primary key. Where it also looks at the status it says `status || ''`, so that PostgreSQL
-- cannot walk the partial index on PENDING for every row, which it prefers while the table has not been analysed.

-- fragment: share_runs
-- The guard of a write: it holds the run's row until commit, rows in id order so that two batches cannot wait for each
-- other. A foreign key's lock would not stop a token from changing.
ORDER BY w.workflow_uuid FOR SHARE OF w

-- fragment: hold_runs
ORDER BY w.workflow_uuid FOR UPDATE OF w

-- fragment: skip_locked_runs
FOR UPDATE OF w SKIP LOCKED

-- fragment: now_once
-- For the facts of every run: worked out once a statement, and {now_ms} once a row.
(SELECT {now_ms})

-- name: run_start
-- rows: id text, name text, class_name text, config_name text, inputs text, serialization text, token text
-- rows: parent_id text, fingerprint text, timeout_ms bigint, deadline_ms bigint, attributes text
-- rows: authenticated_user text, assumed_role text, authenticated_roles text, version text
-- none -> PENDING. A row whose id is taken is left out.
{started_runs}
WHERE true
ON CONFLICT (workflow_uuid) DO NOTHING;

-- fragment: started_runs
INSERT INTO @workflow_status (
    workflow_uuid, status, name, class_name, config_name, inputs, serialization, owner_xid, creation_key,
    parent_workflow_id, fingerprint, workflow_timeout_ms, workflow_deadline_epoch_ms, attributes,
    authenticated_user, assumed_role, authenticated_roles, application_version, application_id,
    executor_id, incarnation, executions, created_at, updated_at, started_at_epoch_ms
)
SELECT
    r.id, 'PENDING', r.name, r.class_name, r.config_name, r.inputs, r.serialization, r.token, r.token,
    r.parent_id, r.fingerprint, r.timeout_ms, r.deadline_ms, r.attributes,
    r.authenticated_user, r.assumed_role, r.authenticated_roles, r.version, :application_id,
    :executor_id, :incarnation, 1, {now_once}, {now_once}, {now_once}
FROM {rows} AS r

-- name: run_enqueue
-- rows: id text, status text, name text, class_name text, config_name text, inputs text, serialization text
-- rows: creation_key text, parent_id text, fingerprint text, timeout_ms bigint, deadline_ms bigint, attributes text
-- rows: authenticated_user text, assumed_role text, authenticated_roles text, version text
-- rows: queue_name text, deduplication_id text, priority int, partition_key text, delay_ms bigint, until_ms bigint
-- none -> ENQUEUED, or DELAYED. A row whose id or deduplication id is taken is left out. Rows go in by deduplication id,
-- so that two batches that want the same ones do not wait for each other.
{enqueued_runs}
WHERE true
ORDER BY r.deduplication_id, r.id
ON CONFLICT DO NOTHING;

-- fragment: enqueued_runs
INSERT INTO @workflow_status (
    workflow_uuid, status, name, class_name, config_name, inputs, serialization, creation_key,
    parent_workflow_id, fingerprint, workflow_timeout_ms, workflow_deadline_epoch_ms, attributes,
    authenticated_user, assumed_role, authenticated_roles, application_version, application_id,
    queue_name, deduplication_id, priority, queue_partition_key, delay_until_epoch_ms, created_at, updated_at
)
SELECT
    r.id, r.status, r.name, r.class_name, r.config_name, r.inputs, r.serialization, r.creation_key,
    r.parent_id, r.fingerprint, r.timeout_ms, r.deadline_ms, r.attributes,
    r.authenticated_user, r.assumed_role, r.authenticated_roles, r.version, :application_id,
    r.queue_name, r.deduplication_id, r.priority, r.partition_key, COALESCE(r.until_ms, {now_ms} + r.delay_ms),
    {now_ms}, {now_ms}
FROM {rows} AS r

-- name: runs_deduplicated
-- rows: queue_name text, deduplication_id text
-- The runs that have deduplication ids, for an enqueue that found one taken. Each is looked up by itself: PostgreSQL
-- would join them with all there are, while it takes these for few.
SELECT
    w.workflow_uuid, w.status, w.name, w.class_name, w.config_name, w.fingerprint, w.creation_key, w.owner_xid,
    w.queue_name, w.deduplication_id
FROM (
    SELECT (
        SELECT d.workflow_uuid FROM @workflow_status AS d
        WHERE d.queue_name = r.queue_name AND d.deduplication_id = r.deduplication_id
    ) AS id FROM {rows} AS r
) AS holders JOIN @workflow_status AS w ON w.workflow_uuid = holders.id;

-- name: database_here
-- Which database this is: its name, here its file, and the mark that its tables have had from the beginning.
SELECT
    (SELECT d.file FROM pragma_database_list AS d WHERE d.name = 'main') AS name,
    (SELECT m."value" FROM @holdfast_meta AS m WHERE m."key" = 'database_id') AS mark;

-- name: outbox_tell
-- rows: channel text
-- Tell the processes that listen when the transaction commits. Here nobody can be told so.
SELECT r.channel AS told FROM {rows} AS r WHERE 1 = 0;

-- name: debounce_begin
-- The run that run_enqueue of the same transaction has put in its queue is one that further calls may put off.
UPDATE @workflow_status
SET is_debounced = TRUE, debounce_deadline_epoch_ms = created_at + CAST(:timeout_ms AS bigint)
WHERE workflow_uuid = :id AND creation_key = :key;

-- name: debounce_extend
-- DELAYED, never started -> DELAYED again, with other arguments; never beyond its deadline.
UPDATE @workflow_status
SET inputs = :inputs, serialization = :serialization, fingerprint = :fingerprint, change_key = :key,
    delay_until_epoch_ms = CASE
        WHEN debounce_deadline_epoch_ms < {now_ms} + CAST(:delay_ms AS bigint) THEN debounce_deadline_epoch_ms
        ELSE {now_ms} + CAST(:delay_ms AS bigint) END,
    updated_at = {now_ms}
WHERE workflow_uuid = :id AND deduplication_id = :deduplication_id AND status || '' = 'DELAYED' AND executions = 0
  AND is_debounced;

-- name: runs_look
-- rows: id text
-- What is known of runs, for a start that found its id taken, an unknown commit, or somebody who waits.
SELECT
    w.workflow_uuid, w.status, w.name, w.class_name, w.config_name, w.fingerprint, w.creation_key, w.owner_xid,
    w.output, w.error, w.output_serialization, w.recovery_attempts, w.generation, w.change_key,
    w.workflow_deadline_epoch_ms, w.completed_at
FROM {rows} AS r JOIN @workflow_status AS w ON w.workflow_uuid = r.id;

-- name: step_record
-- rows: id text, token text, position int, name text, identity text, fingerprint text, output text, error text
-- rows: child_id text, serialization text, duration_ms bigint
-- One record an operation. A row whose run has ended or has another token, or that is recorded already, is left out.
{insert_steps}
ON CONFLICT DO NOTHING;

-- name: step_record_new
-- only: postgres
-- rows: id text, token text, position int, name text, identity text, fingerprint text, output text, error text
-- rows: child_id text, serialization text, duration_ms bigint
-- The same for what has not been recorded before, as it nearly always is: else all of it is refused. To look for each
-- row before it is written takes a fifth of the time.
{insert_steps};

-- fragment: insert_steps
{records}
JOIN @workflow_status AS w ON w.workflow_uuid = r.id AND {token_of_run} = r.token
WHERE true
{share_runs}

-- fragment: records
INSERT INTO @operation_outputs (
    workflow_uuid, function_id, function_name, identity, fingerprint, output, error, child_workflow_id,
    serialization, owner_xid, started_at_epoch_ms, completed_at_epoch_ms
)
SELECT
    r.id, r.position, r.name, r.identity, r.fingerprint, r.output, r.error, r.child_id,
    r.serialization, r.token, {now_once} - r.duration_ms, {now_once}
FROM {rows} AS r

-- fragment: token_of_run
-- The token of a run that has not ended. To PostgreSQL a condition on the status by itself would seem to leave so few
-- runs that it would look through all of them first.
CASE WHEN w.status = 'PENDING' THEN w.owner_xid END

-- name: steps_look
-- rows: id text, position int, identity text
-- Why a record was refused, or whether it is there after all.
SELECT
    r.id AS workflow_uuid, r.identity, w.status, w.owner_xid, o.owner_xid AS recorded_by, o.function_name,
    o.child_workflow_id, o.output, o.serialization
FROM {rows} AS r
LEFT JOIN @workflow_status AS w ON w.workflow_uuid = r.id
LEFT JOIN @operation_outputs AS o
    ON o.workflow_uuid = r.id AND o.function_id = r.position AND o.identity = r.identity;

-- name: runs_hold_to_ask
-- rows: id text
-- Waits until no earlier transaction of ours holds these runs any more, and keeps others from beginning.
SELECT w.workflow_uuid FROM {rows} AS r JOIN @workflow_status AS w ON w.workflow_uuid = r.id
{hold_runs};

-- name: run_share
-- Whose a run is; nobody takes it, or ends it, before this transaction is over.
SELECT w.status, w.owner_xid FROM @workflow_status AS w WHERE w.workflow_uuid = :id
{share_runs};

-- name: step_record_held
-- rows: id text, token text, position int, name text, identity text, fingerprint text, output text, error text
-- rows: child_id text, serialization text, duration_ms bigint
-- The record of a change that this transaction has made, in which it has locked the run and found it under this token.
-- The change may have ended the run since, so the token is not asked for here. A record that is there is a conflict.
{records};

-- name: step_amend
-- rows: id text, token text, position int, output text, child_id text
-- What a record of this transaction says of the runs it enqueued: others, which had the deduplication ids already.
UPDATE @operation_outputs AS o SET output = r.output, child_workflow_id = r.child_id
FROM {rows} AS r
WHERE o.workflow_uuid = r.id AND o.function_id = r.position AND o.owner_xid = r.token;

-- name: runs_progressed
-- rows: id text, token text
-- A committed record shows that the run does not kill its executor before it gets anywhere.
UPDATE @workflow_status AS w SET recovery_attempts = 0
FROM {rows} AS r
WHERE w.workflow_uuid = r.id AND w.owner_xid = r.token AND w.recovery_attempts > 0;

-- name: runs_adopt
-- rows: id text, version text
-- A run goes a way that only releases have from this version on; beside the record that says so, which holds the run.
UPDATE @workflow_status AS w SET application_version = r.version
FROM {rows} AS r
WHERE w.workflow_uuid = r.id;

-- name: run_finish
-- rows: id text, token text, outcome text, result text, failure text, result_serialization text
-- PENDING -> SUCCESS / ERROR, by the holder of the token.
UPDATE @workflow_status AS w
SET status = r.outcome, output = r.result, error = r.failure, output_serialization = r.result_serialization,
    completed_at = {now_once}, updated_at = {now_once}, deduplication_id = NULL
FROM {rows} AS r
WHERE w.workflow_uuid = r.id AND w.owner_xid = r.token AND w.status || '' = 'PENDING';

-- name: run_exhausted
-- PENDING -> MAX_RECOVERY_ATTEMPTS_EXCEEDED, by whoever has claimed a run over its cap, with the cause.
UPDATE @workflow_status
SET status = 'MAX_RECOVERY_ATTEMPTS_EXCEEDED', error = :error, output_serialization = :serialization,
    completed_at = {now_ms}, updated_at = {now_ms}, deduplication_id = NULL
WHERE workflow_uuid = :id AND owner_xid = :token AND status || '' = 'PENDING';

-- name: run_hand_over
-- rows: id text, token text
-- PENDING -> ENQUEUED by the holder of the token, attempts unchanged. One that was put away before, and had gone on
-- (:begun is 1), starts anew with its next claim, as others do.
UPDATE @workflow_status AS w
SET status = 'ENQUEUED', owner_xid = NULL, incarnation = NULL, updated_at = {now_ms},
    queue_name = COALESCE(w.queue_name, :internal_queue),
    wait_kind = CASE WHEN CAST(:begun AS bigint) = 1 THEN NULL ELSE w.wait_kind END
FROM {rows} AS r
WHERE w.workflow_uuid = r.id AND w.owner_xid = r.token AND w.status || '' = 'PENDING';

-- name: run_retry
-- rows: id text, token text, cut int, delay_ms bigint
-- PENDING -> DELAYED by the holder of the token: the run is tried again as a whole. The token stays behind as the key
-- of this change.
UPDATE @workflow_status AS w
SET status = 'DELAYED', owner_xid = NULL, incarnation = NULL, updated_at = {now_ms}, change_key = r.token,
    retries = w.retries + 1, generation = w.generation + 1, delay_until_epoch_ms = {now_ms} + r.delay_ms,
    wait_kind = NULL, queue_name = COALESCE(w.queue_name, :internal_queue)
FROM {rows} AS r
WHERE w.workflow_uuid = r.id AND w.owner_xid = r.token AND w.status || '' = 'PENDING';

-- name: run_retry_cut
-- rows: id text, token text, cut int, delay_ms bigint
-- What was recorded from the failed operation on goes, where run_retry of the same transaction has taken place. A part
-- with a time limit of which the verdict is gone is gone back into: the end of its time goes too, and is set anew.
DELETE FROM @operation_outputs
WHERE (workflow_uuid, function_id) IN (
    SELECT o.workflow_uuid, o.function_id
    FROM {rows} AS r JOIN @workflow_status AS w ON w.workflow_uuid = r.id AND w.change_key = r.token
    JOIN @operation_outputs AS o ON o.workflow_uuid = r.id AND o.function_id >= r.cut
    WHERE w.status || '' = 'DELAYED'
);
DELETE FROM @operation_outputs
WHERE (workflow_uuid, function_id) IN (
    SELECT o.workflow_uuid, o.function_id
    FROM {rows} AS r JOIN @workflow_status AS w ON w.workflow_uuid = r.id AND w.change_key = r.token
    JOIN @operation_outputs AS o ON o.workflow_uuid = r.id AND o.function_name = 'holdfast.timeout'
    WHERE w.status || '' = 'DELAYED'
      AND (SELECT count(*) FROM @operation_outputs AS v
           WHERE v.workflow_uuid = o.workflow_uuid AND v.identity = o.identity || '.0' AND v.identity LIKE '%.%') = 0
);

-- name: run_retry_streams
-- rows: id text, token text, cut int, delay_ms bigint
-- The streams to which those operations have written, and from which offset on.
SELECT s.workflow_uuid AS id, s."key" AS stream, min(s."offset") AS first_offset, min(r.cut) AS cut
FROM {rows} AS r JOIN @workflow_status AS w ON w.workflow_uuid = r.id AND w.change_key = r.token
JOIN @streams AS s ON s.workflow_uuid = r.id AND s.function_id >= r.cut
WHERE w.status || '' = 'DELAYED'
GROUP BY s.workflow_uuid, s."key";

-- name: run_retry_cut_streams
-- rows: id text, token text, cut int, delay_ms bigint
-- What those operations have written to streams goes too.
DELETE FROM @streams
WHERE (workflow_uuid, "key", "offset") IN (
    SELECT s.workflow_uuid, s."key", s."offset"
    FROM {rows} AS r JOIN @workflow_status AS w ON w.workflow_uuid = r.id AND w.change_key = r.token
    JOIN @streams AS s ON s.workflow_uuid = r.id AND s.function_id >= r.cut
    WHERE w.status || '' = 'DELAYED'
);

-- name: runs_release
-- PENDING -> ENQUEUED for runs of one incarnation whose executor has no row: oldest first, a bounded number.
UPDATE @workflow_status
SET status = 'ENQUEUED', owner_xid = NULL, incarnation = NULL, updated_at = {now_ms},
    recovery_attempts = recovery_attempts + 1, queue_name = COALESCE(queue_name, :internal_queue)
WHERE workflow_uuid IN (
    SELECT w.workflow_uuid FROM @workflow_status AS w
    WHERE w.status = 'PENDING' AND w.incarnation = :incarnation
      AND NOT EXISTS (SELECT 1 FROM @executors AS e WHERE e.incarnation = w.incarnation)
    ORDER BY w.created_at
    LIMIT :most
    {skip_locked_runs}
) AND status = 'PENDING' AND incarnation = :incarnation;

-- name: runs_of_incarnation
SELECT w.workflow_uuid, w.owner_xid FROM @workflow_status AS w
WHERE w.status = 'PENDING' AND w.incarnation = :incarnation;

-- name: steps_of_runs
-- rows: id text
-- The whole history of recovered runs in one go.
SELECT
    o.workflow_uuid, o.function_id, o.function_name, o.identity, o.fingerprint, o.output, o.error,
    o.child_workflow_id, o.serialization
FROM {rows} AS r JOIN @operation_outputs AS o ON o.workflow_uuid = r.id;

-- name: executor_register
INSERT INTO @executors (
    incarnation, executor_id, hostname, pid, application_version, queues, beat_seq, lease_ms, started_at, last_beat_at
) VALUES (
    :incarnation, :executor_id, :hostname, :pid, :application_version, :queues, 0, :lease_ms, {now_ms}, {now_ms}
);

-- name: executor_beat
-- Counts only while the row is there and holds the last beat that was acknowledged.
UPDATE @executors SET beat_seq = :beat_seq, last_beat_at = {now_ms}, stalled_since = :stalled_since
WHERE incarnation = :incarnation AND beat_seq < :beat_seq AND beat_seq >= :acknowledged;

-- name: executors_see
-- Everybody's last beat; the PENDING runs of *incarnation*, who asks; and, with neither, the incarnations that own PENDING
-- runs and have no row: they are gone, whoever noticed first.
SELECT e.incarnation, e.beat_seq, e.lease_ms, NULL AS workflow_uuid, NULL AS owner_xid, {now_ms} AS now_ms
FROM @executors AS e
UNION ALL
SELECT w.incarnation, NULL, NULL, w.workflow_uuid, w.owner_xid, {now_ms} FROM @workflow_status AS w
WHERE w.status = 'PENDING' AND w.incarnation = :incarnation
UNION ALL
SELECT gone.incarnation, NULL, NULL, NULL, NULL, {now_ms} FROM (
    SELECT DISTINCT w.incarnation FROM @workflow_status AS w
    WHERE w.status = 'PENDING' AND w.incarnation IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM @executors AS e WHERE e.incarnation = w.incarnation)
) AS gone;

-- name: executors_list
SELECT
    incarnation, executor_id, hostname, pid, application_version, queues, beat_seq, lease_ms, stalled_since,
    started_at, last_beat_at, {now_ms} AS now_ms
FROM @executors ORDER BY started_at;

-- name: executor_remove
-- Exactly the beat that was seen not to move.
DELETE FROM @executors WHERE incarnation = :incarnation AND beat_seq = :beat_seq;

-- name: executor_leave
DELETE FROM @executors WHERE incarnation = :incarnation;

-- fragment: latest_yet
-- Later than every other, also when two come within one millisecond or a clock went back.
CASE WHEN max(v.version_timestamp) >= {now_ms} THEN max(v.version_timestamp) + 1 ELSE {now_ms} END

-- name: version_register
INSERT INTO @application_versions (version_id, version_name, version_timestamp, created_at)
SELECT :version_id, :version_name, {latest_yet}, {now_ms} FROM @application_versions AS v WHERE TRUE
ON CONFLICT (version_name) DO NOTHING;

-- name: version_has
-- rows: workflow text, version text
INSERT INTO @application_workflows (workflow_name, version_name)
SELECT r.workflow, r.version FROM {rows} AS r WHERE TRUE ORDER BY r.workflow
ON CONFLICT DO NOTHING;

-- name: versions_later
-- rows: workflow text
-- The versions that were set as latest after this one and have one of these workflows, the latest first.
SELECT v.version_name
FROM {rows} AS r
JOIN @application_workflows AS h ON h.workflow_name = r.workflow
JOIN @application_versions AS v ON v.version_name = h.version_name
WHERE v.version_timestamp > (SELECT o.version_timestamp FROM @application_versions AS o WHERE o.version_name = :version)
ORDER BY v.version_timestamp DESC;

-- name: versions_list
SELECT version_id, version_name, version_timestamp, created_at FROM @application_versions
ORDER BY version_timestamp DESC, created_at DESC;

-- name: version_set_latest
UPDATE @application_versions SET version_timestamp = (SELECT {latest_yet} FROM @application_versions AS v)
WHERE version_name = :version_name;

-- name: run_standing
-- Where a run stands that somebody has waited for long enough, and whether what it waits for is there.
SELECT
    w.status, w.name, w.queue_name, w.application_version, w.executor_id, q.name AS registered, q.paused,
    q.concurrency, q.worker_concurrency, q.rate_limit_max, q.rate_limit_period_sec,
    q.partition_concurrency, q.partition_rate_limit_max, q.partition_rate_limit_period_sec,
    CASE WHEN {has_executor} THEN 1 ELSE 0 END AS has_executor
FROM @workflow_status AS w LEFT JOIN @queues AS q ON q.name = w.queue_name
WHERE w.workflow_uuid = :id;

-- name: runs_left_behind
-- How many of the runs that have waited longest wait for each version that no living executor has. SQLite uses the index
-- of runs that are not PENDING only where it is told so.
SELECT w.application_version, count(*) AS runs
FROM (
    SELECT e.workflow_uuid FROM (
        SELECT workflow_uuid FROM @workflow_status WHERE status = 'ENQUEUED' AND status <> 'PENDING'
        ORDER BY created_at LIMIT :most
    ) AS e
    UNION ALL
    SELECT d.workflow_uuid FROM (
        SELECT workflow_uuid FROM @workflow_status WHERE status = 'DELAYED' AND status <> 'PENDING'
        ORDER BY created_at LIMIT :most
    ) AS d
) AS waiting JOIN @workflow_status AS w ON w.workflow_uuid = waiting.workflow_uuid
WHERE w.application_version IS NOT NULL AND NOT {has_executor}
GROUP BY w.application_version
ORDER BY count(*) DESC, w.application_version;

-- fragment: has_executor
-- Of a run w: whether an executor of its version is heard of.
EXISTS (
    SELECT 1 FROM @executors AS x
    WHERE x.application_version = w.application_version AND x.last_beat_at >= {now_ms} - x.lease_ms
)
