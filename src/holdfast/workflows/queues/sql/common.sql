-- Queues: their settings, what waits in them, and claims. PostgreSQL and SQLite share most of this text; MariaDB/MySQL has
-- its own under the same names.
--
-- A limit is counted in a statement after the one that locks the queue's row, in the same transaction: one statement
-- that locks and counts would count what it saw before it got the lock. Whoever takes a run from a limited queue holds
-- that lock until commit; whatever gives a slot back needs none, since a count that is too high takes too little.

-- fragment: settings
q.queue_id, q.name, q.concurrency, q.worker_concurrency, q.rate_limit_max, q.rate_limit_period_sec,
q.priority_enabled, q.partition_queue, q.partition_concurrency, q.partition_rate_limit_max,
q.partition_rate_limit_period_sec, q.polling_interval_sec, q.paused, q.turn, q.created_at, q.updated_at

-- fragment: hold
FOR UPDATE

-- fragment: hold_free
FOR UPDATE SKIP LOCKED

-- fragment: q_waits
q.status = 'ENQUEUED'

-- fragment: w_waits
w.status = 'ENQUEUED'

-- name: queue_register
-- A queue of this name that is there stays as it is.
INSERT INTO @queues (
    queue_id, name, concurrency, worker_concurrency, rate_limit_max, rate_limit_period_sec, priority_enabled,
    partition_queue, partition_concurrency, partition_rate_limit_max, partition_rate_limit_period_sec,
    polling_interval_sec, created_at, updated_at
) VALUES (
    :queue_id, :name, :concurrency, :worker_concurrency, :rate_limit_max, :rate_limit_period_sec, :priority_enabled,
    :partition_queue, :partition_concurrency, :partition_rate_limit_max, :partition_rate_limit_period_sec,
    :polling_interval_sec, {now_ms}, {now_ms}
) {unless_there};

-- fragment: unless_there
ON CONFLICT (name) DO NOTHING

-- name: queue_configure
UPDATE @queues
SET concurrency = :concurrency, worker_concurrency = :worker_concurrency, rate_limit_max = :rate_limit_max,
    rate_limit_period_sec = :rate_limit_period_sec, priority_enabled = :priority_enabled,
    partition_queue = :partition_queue, partition_concurrency = :partition_concurrency,
    partition_rate_limit_max = :partition_rate_limit_max,
    partition_rate_limit_period_sec = :partition_rate_limit_period_sec,
    polling_interval_sec = :polling_interval_sec, paused = :paused, updated_at = {now_ms}
WHERE name = :name;

-- name: queue_hold
-- The queue's row, held until commit; waits for whoever holds it.
SELECT {settings} FROM @queues AS q WHERE q.name = :name {hold};

-- name: queue_hold_free
-- The queue's row, held until commit; nothing if somebody else holds it at this moment.
SELECT {settings} FROM @queues AS q WHERE q.name = :name {hold_free};

-- name: queue_get
SELECT {settings} FROM @queues AS q WHERE q.name = :name;

-- name: queues_list
SELECT {settings} FROM @queues AS q ORDER BY q.name;

-- name: queue_in_use
-- How many runs wait in a queue or run out of it, counted no further than :most.
SELECT count(*) AS runs FROM (
    SELECT 1 AS one FROM @workflow_status AS w
    WHERE w.queue_name = :name AND w.status IN ('ENQUEUED', 'DELAYED', 'PENDING')
    LIMIT :most
) AS found;

-- name: queue_delete
DELETE FROM @queues WHERE name = :name;

-- name: starts_forget
DELETE FROM @queue_starts WHERE queue_name = :name;

-- name: queues_survey
-- All that a process at rest asks: the queues as they are set now, in which of them something waits, when the next
-- delayed run and the next slot of a schedule are due, whether a deadline has passed, and whether any run is put away.
-- One row at least, also when there is no queue. A subquery with a LIMIT is asked once for each queue: an EXISTS might be
-- answered by gathering all that waits. It begins with what was enqueued last: in front of the index there may be very
-- many entries of runs that have ended, while somebody holds an old snapshot.
SELECT
    {now_ms} AS now_ms,
    (SELECT min(w.delay_until_epoch_ms) FROM @workflow_status AS w
     WHERE w.status = 'DELAYED' AND w.delay_until_epoch_ms IS NOT NULL) AS due_ms,
    (SELECT min(s.next_due_epoch_ms) FROM @workflow_schedules AS s
     WHERE s.status = 'ACTIVE' AND s.next_due_epoch_ms IS NOT NULL) AS slot_ms,
    (SELECT 1 FROM @workflow_status AS w
     WHERE w.status IN ('PENDING', 'ENQUEUED', 'DELAYED') AND w.workflow_deadline_epoch_ms IS NOT NULL
       AND w.workflow_deadline_epoch_ms <= {now_ms} LIMIT 1) AS overdue,
    (SELECT 1 FROM @workflow_waits LIMIT 1) AS parked,
    (SELECT 1 FROM @workflow_status AS w {by_age}
     WHERE {w_waits} AND w.queue_name = :internal_queue
     ORDER BY w.created_at DESC, w.workflow_uuid DESC LIMIT 1) AS released,
    (SELECT 1 FROM @workflow_status AS w {by_age}
     WHERE {w_waits} AND w.queue_name = q.name
     ORDER BY w.created_at DESC, w.workflow_uuid DESC LIMIT 1) AS waiting,
    {settings}
FROM (SELECT 1 AS one) AS here LEFT JOIN @queues AS q ON here.one = 1;

-- name: runs_due
-- DELAYED -> ENQUEUED when due, the longest due first, a bounded number. A debounced run gives its key up; one that was
-- put away keeps the kind of its wait, by which its claim is no new start.
UPDATE @workflow_status
SET status = 'ENQUEUED', updated_at = {now_ms},
    deduplication_id = CASE WHEN is_debounced THEN NULL ELSE deduplication_id END
WHERE workflow_uuid IN (
    SELECT w.workflow_uuid FROM @workflow_status AS w {by_delay}
    WHERE w.status = 'DELAYED' AND w.delay_until_epoch_ms <= {now_ms}
    ORDER BY w.delay_until_epoch_ms
    LIMIT :most
    {hold_free_runs}
) AND status || '' = 'DELAYED';

-- fragment: within_period
-- What lies further ahead than a period was started before the clock was set back: for as long as it was set back by,
-- nothing else would start.
s.started_at > {now_ms} - :period_ms AND s.started_at < {now_ms} + :period_ms

-- name: queue_use
-- How much of a queue's limits is used. Slots are counted no further than :concurrency, which is 0 where there is no such
-- limit; the same goes for a period of 0.
SELECT
    {now_ms} AS now_ms,
    (SELECT count(*) FROM (
        SELECT 1 AS one FROM @workflow_status AS w
        WHERE w.status = 'PENDING' AND w.queue_name = :queue_name LIMIT :concurrency
    ) AS slots) AS running,
    (SELECT count(*) FROM @queue_starts AS s
     WHERE s.queue_name = :queue_name AND {within_period}) AS starts,
    (SELECT min(s.started_at) FROM @queue_starts AS s
     WHERE s.queue_name = :queue_name AND {within_period}) AS oldest_start_ms;

-- name: partition_use
-- rows: partition_key text
-- The same for partitions.
SELECT
    r.partition_key, {now_ms} AS now_ms,
    (SELECT count(*) FROM @workflow_status AS w
     WHERE w.status = 'PENDING' AND w.queue_name = :queue_name
       AND w.queue_partition_key = r.partition_key) AS running,
    (SELECT count(*) FROM @queue_starts AS s
     WHERE s.queue_name = :queue_name AND s.partition_key = r.partition_key
       AND {within_period}) AS starts,
    (SELECT min(s.started_at) FROM @queue_starts AS s
     WHERE s.queue_name = :queue_name AND s.partition_key = r.partition_key
       AND {within_period}) AS oldest_start_ms
FROM {rows} AS r;

-- name: keyless_use
-- The same for runs of a partitioned queue that have no partition key.
SELECT
    {now_ms} AS now_ms,
    (SELECT count(*) FROM @workflow_status AS w
     WHERE w.status = 'PENDING' AND w.queue_name = :queue_name AND w.queue_partition_key IS NULL) AS running,
    (SELECT count(*) FROM @queue_starts AS s
     WHERE s.queue_name = :queue_name AND s.partition_key = '' AND {within_period}) AS starts,
    (SELECT min(s.started_at) FROM @queue_starts AS s
     WHERE s.queue_name = :queue_name AND s.partition_key = ''
       AND {within_period}) AS oldest_start_ms;

-- name: keyless_waiting
-- Whether one of the oldest runs of a partitioned queue has no partition key.
SELECT count(*) AS runs FROM (
    SELECT w.queue_partition_key FROM @workflow_status AS w {by_age}
    WHERE {w_waits} AND w.queue_name = :queue_name
    ORDER BY w.created_at, w.workflow_uuid
    LIMIT :most
) AS oldest WHERE oldest.queue_partition_key IS NULL;

-- name: partitions_waiting
-- The next partitions in which something waits, in the order of their keys: one step through the index for each,
-- however much waits in them.
WITH RECURSIVE found (partition_key, n) AS (
    SELECT (
        SELECT w.queue_partition_key FROM @workflow_status AS w {by_partition}
        WHERE {w_waits} AND w.queue_name = :queue_name AND w.queue_partition_key IS NOT NULL
          [[ AND w.queue_partition_key > :after ]]
          [[ AND w.queue_partition_key <= :until ]]
        ORDER BY w.queue_partition_key LIMIT 1
    ), 1
    UNION ALL
    SELECT (
        SELECT w.queue_partition_key FROM @workflow_status AS w {by_partition}
        WHERE {w_waits} AND w.queue_name = :queue_name AND w.queue_partition_key IS NOT NULL
          AND w.queue_partition_key > found.partition_key
          [[ AND w.queue_partition_key <= :until ]]
        ORDER BY w.queue_partition_key LIMIT 1
    ), found.n + 1
    FROM found WHERE found.partition_key IS NOT NULL AND found.n < :most
)
SELECT partition_key FROM found WHERE partition_key IS NOT NULL ORDER BY n;

-- name: inputs_of_run
SELECT w.inputs FROM @workflow_status AS w WHERE w.workflow_uuid = :id;

-- fragment: bytes_of_output
octet_length(o.output)

-- fragment: bytes_of_error
octet_length(o.error)

-- name: records_bytes
-- rows: id text
-- About how many bytes the records of runs are.
SELECT
    o.workflow_uuid,
    sum(400 + COALESCE({bytes_of_output}, 0) + COALESCE({bytes_of_error}, 0)) AS bytes
FROM {rows} AS r JOIN @operation_outputs AS o ON o.workflow_uuid = r.id
GROUP BY o.workflow_uuid;

-- name: queue_turn
UPDATE @queues SET turn = :turn WHERE name = :name;

-- name: starts_note
-- rows: token text, partition_key text, id text
INSERT INTO @queue_starts (token, queue_name, partition_key, workflow_uuid, started_at)
SELECT r.token, :queue_name, r.partition_key, r.id, {now_ms} FROM {rows} AS r;

-- name: starts_take_back
-- rows: token text
-- What was claimed and goes back without having begun has not left its queue.
DELETE FROM @queue_starts WHERE token IN (SELECT r.token FROM {rows} AS r);

-- name: starts_trim
DELETE FROM @queue_starts WHERE queue_name = :queue_name AND started_at <= {now_ms} - :keep_ms;

-- fragment: unlimited
-- For whoever holds no lock: nothing is taken from a queue that has a limit, or is paused, by now.
NOT EXISTS (
    SELECT 1 FROM @queues AS l
    WHERE l.name = :queue_name
      AND (l.paused OR l.partition_queue OR l.concurrency IS NOT NULL OR l.rate_limit_max IS NOT NULL)
)

-- fragment: partition_age_order
q.created_at, q.workflow_uuid

-- fragment: begun
-- What a claim notes besides whose the run is now.
application_version = COALESCE(w.application_version, :application_version),
started_at_epoch_ms = COALESCE(w.started_at_epoch_ms, {now_ms}),
workflow_deadline_epoch_ms = CASE
    -- A longer one than a hundred years, which only other programs write, is none: the sum might be too large.
    WHEN w.started_at_epoch_ms IS NULL AND w.workflow_timeout_ms <= 3153600000000
    THEN CASE WHEN w.workflow_deadline_epoch_ms < {now_ms} + w.workflow_timeout_ms
         THEN w.workflow_deadline_epoch_ms ELSE {now_ms} + w.workflow_timeout_ms END
    ELSE w.workflow_deadline_epoch_ms END,
executions = w.executions + 1, updated_at = {now_ms}

-- fragment: claimed_run
w.workflow_uuid, w.status, w.name, w.class_name, w.config_name, w.serialization, w.owner_xid,
octet_length(w.inputs) AS inputs_bytes, CASE WHEN octet_length(w.inputs) <= 65536 THEN w.inputs END AS inputs,
w.recovery_attempts, w.generation, w.retries, w.workflow_deadline_epoch_ms, w.parent_workflow_id, w.executions,
w.executor_id, w.queue_name, w.queue_partition_key, w.priority, w.created_at, w.wait_kind, w.creation_key,
w.authenticated_user, w.assumed_role, w.authenticated_roles, w.application_version

-- name: queue_claim
-- The oldest of a queue; with :after_ms and :after_id, the oldest of those behind a run. The queue is named again there,
-- so that PostgreSQL cannot take an index of times alone for it.
{claim} {by_queue_age}
WHERE {q_waits} AND q.queue_name = :queue_name
[[ AND (q.queue_name, q.created_at, q.workflow_uuid) > (:queue_name, :after_ms, :after_id) ]]
[[ unlimited? AND {unlimited} ]]
[[ keyless? AND q.queue_partition_key IS NULL ]]
{fitting}
ORDER BY q.created_at, q.workflow_uuid
{claimed};

-- name: queue_claim_by_priority
{claim} {by_queue_priority}
WHERE {q_waits} AND q.queue_name = :queue_name
[[ unlimited? AND {unlimited} ]]
[[ keyless? AND q.queue_partition_key IS NULL ]]
{fitting}
ORDER BY q.priority, q.created_at, q.workflow_uuid
{claimed};

-- name: partition_claim
-- The oldest of one partition.
{claim} {by_partition_age}
WHERE {q_waits} AND q.queue_name = :queue_name
AND q.queue_partition_key = :partition_key
{fitting}
ORDER BY {partition_age_order}
{claimed};

-- name: partition_claim_by_priority
{claim} {by_partition_priority}
WHERE {q_waits} AND q.queue_name = :queue_name
AND q.queue_partition_key = :partition_key
{fitting}
ORDER BY q.priority, q.created_at, q.workflow_uuid
{claimed};
