-- Tasks. PostgreSQL and SQLite share this text; MariaDB/MySQL, which returns nothing from an UPDATE, has its own where it
-- must. {tasks} is the table of the queue, as a rule @holdfast_task_queue.
--
-- Who may end a task is said by its token: a task that is processing is its holder's alone. Rows carry the token that the
-- caller holds (held, NULL for none) and the key by which this very write is recognised, which stays in the row.

-- fragment: read_ms
{now_ms}

-- fragment: read_seconds
{now_ms} / 1000.0

-- fragment: put
INSERT INTO {tasks} (
    task_id, queue_name, payload, status, created_at, updated_at, attempts, max_attempts, visibility_timeout,
    worker_id, error, priority, due_at_ms, creation_key
)
SELECT
    r.id, r.queue_name, r.payload, 'pending', {read_seconds}, {read_seconds}, 0, r.max_attempts,
    r.visibility_timeout, '', '', r.priority, {read_ms} + r.delay_ms, r.creation_key
FROM {rows} AS r

-- name: tasks_put
-- rows: id text, queue_name text, payload text, max_attempts int, visibility_timeout int, priority int
-- rows: delay_ms bigint, creation_key text
-- none -> pending. A row whose id is taken is left out.
{put} WHERE true ORDER BY r.n ON CONFLICT (task_id) DO NOTHING;

-- name: tasks_put_new
-- rows: id text, queue_name text, payload text, max_attempts int, visibility_timeout int, priority int
-- rows: delay_ms bigint, creation_key text
-- none -> pending, of tasks whose ids were made for them. One that is there all the same is a conflict: to be ready for
-- it row by row takes PostgreSQL a fifth of the time of an insert.
{put} ORDER BY r.n;

-- name: tasks_look
-- rows: id text
-- What is known of tasks, for a write that was refused or whose commit is unknown.
SELECT
    t.task_id, t.status, t.token, t.creation_key, t.queue_name, t.payload, t.error, t.attempts, t.max_attempts,
    t.due_at_ms
FROM {rows} AS r JOIN {tasks} AS t ON t.task_id = r.id;

-- fragment: found
-- What is ready and what is due in a queue, numbered by priority and age; what is spent is numbered apart.
SELECT found.*, row_number() OVER (PARTITION BY found.spent ORDER BY found.priority, found.sequence) AS place
FROM (
    SELECT * FROM (
        SELECT q.task_id, q.priority, q.sequence, 0 AS spent, 1 AS ready FROM {tasks} AS q {by_ready}
        WHERE q.queue_name = :queue_name AND q.status = 'pending' AND q.due_at_ms IS NULL
        ORDER BY q.priority, q.sequence LIMIT :most {hold_free}
    ) AS ready
    UNION ALL
    SELECT * FROM (
        SELECT q.task_id, q.priority, q.sequence, {q_spent}, 0 AS ready FROM {tasks} AS q {by_due}
        WHERE q.queue_name = :queue_name AND q.due_at_ms <= {now_ms}
        ORDER BY q.due_at_ms LIMIT :most_due {hold_free}
    ) AS due
) AS found

-- fragment: paired
-- Each with a slot for it, as long as there are any.
SELECT f.*, s.token AS slot, s.worker_id AS worker
FROM ({found}) AS f LEFT JOIN (
    SELECT r.token, r.worker_id, row_number() OVER (ORDER BY r.n) AS place FROM {rows} AS r
) AS s ON s.place = f.place AND f.spent = 0

-- name: tasks_claim
-- rows: token text, worker_id text
-- only: sqlite, postgres
-- pending -> processing, for as many tasks as there are rows: by priority, then in the order in which they came. In the
-- same statement what is due in this queue gets its turn: a delayed task, and one whose lease is over, is taken or made
-- ready; after its last attempt it is dead_lettered. The answer has those that were taken and those that died. What is
-- found is kept: PostgreSQL might ask again for each row, and what passes over its own locks finds others every time.
WITH c AS MATERIALIZED (
    SELECT p.task_id AS id, p.spent, p.slot, p.worker FROM ({paired}) AS p WHERE p.slot IS NOT NULL OR p.ready = 0
)
UPDATE {tasks} AS t
SET status = CASE WHEN c.slot IS NOT NULL THEN 'processing' WHEN c.spent = 1 THEN 'dead_lettered' ELSE 'pending' END,
    attempts = t.attempts + CASE WHEN c.slot IS NOT NULL THEN 1 ELSE 0 END,
    token = COALESCE(c.slot, t.token), worker_id = COALESCE(c.worker, ''),
    error = CASE WHEN t.status = 'processing' THEN :lost ELSE t.error END,
    due_at_ms = CASE WHEN c.slot IS NOT NULL THEN {now_ms} + CAST(t.visibility_timeout AS bigint) * 1000
                     WHEN c.spent = 1 THEN {now_ms} + CAST(:owed_ms AS bigint) END,
    updated_at = {now_ms} / 1000.0
FROM c
WHERE t.task_id = c.id
RETURNING
    task_id, queue_name, CASE WHEN status = 'pending' THEN '' ELSE payload END AS payload, status, created_at, updated_at,
    attempts, max_attempts, visibility_timeout, worker_id, error, priority, sequence, due_at_ms, token;

-- fragment: q_spent
CASE WHEN q.status = 'dead_lettered' OR q.status = 'processing' AND q.attempts >= q.max_attempts THEN 1 ELSE 0 END AS spent

-- name: tasks_claimed
-- rows: token text, worker_id text
-- What a claim of unknown outcome has taken after all.
SELECT {columns} FROM {rows} AS r JOIN {tasks} AS t {by_due_t}
    ON t.queue_name = :queue_name AND t.due_at_ms IS NOT NULL AND t.token = r.token AND t.status = 'processing';

-- fragment: columns
t.task_id, t.queue_name, t.payload, t.status, t.created_at, t.updated_at, t.attempts, t.max_attempts,
t.visibility_timeout, t.worker_id, t.error, t.priority, t.sequence, t.due_at_ms, t.token

-- name: tasks_due
-- Leases that are over, and dead letters that are owed; held until the end of the transaction.
SELECT {columns}, {t_spent} FROM {tasks} AS t
WHERE t.due_at_ms <= {now_ms} AND t.status <> 'pending' [[ AND t.queue_name = :queue_name ]]
ORDER BY t.due_at_ms LIMIT :most_due {hold_free};

-- fragment: t_spent
CASE WHEN t.status = 'dead_lettered' OR t.status = 'processing' AND t.attempts >= t.max_attempts THEN 1 ELSE 0 END AS spent

-- name: tasks_give_up
-- rows: id text, spent int, said text
-- What is due and nobody takes: ready again, or dead_lettered after the last attempt.
UPDATE {tasks} AS t
SET error = COALESCE(r.said, t.error),
    status = CASE WHEN r.spent = 1 THEN 'dead_lettered' ELSE 'pending' END,
    due_at_ms = CASE WHEN r.spent = 1 THEN {now_ms} + CAST(:owed_ms AS bigint) END,
    worker_id = '', updated_at = {now_ms} / 1000.0
FROM {rows} AS r
WHERE t.task_id = r.id;

-- name: tasks_complete
-- rows: id text, held text, key text
-- processing -> completed by its holder; pending -> completed by its last holder, or by anybody who holds no token.
UPDATE {tasks} AS t
SET status = 'completed', token = r.key, worker_id = '', due_at_ms = NULL, updated_at = {now_ms} / 1000.0
FROM {rows} AS r
WHERE t.task_id = r.id
  AND (t.status = 'processing' AND t.token = r.held OR t.status = 'pending' AND (r.held IS NULL OR t.token = r.held));

-- name: tasks_fail
-- rows: id text, held text, key text, said text, retry_ms bigint, draw int, uncount int
-- processing -> pending by its holder, or dead_lettered after the last attempt; without a token, a task that nobody holds.
-- The wait doubles with each attempt; draw, of a thousand, is where in its second half it ends. With uncount = 1 the
-- attempt of its holder does not count, and never kills.
UPDATE {tasks} AS t
SET status = CASE WHEN r.uncount = 0 AND t.attempts >= t.max_attempts THEN 'dead_lettered' ELSE 'pending' END,
    due_at_ms = CASE WHEN r.uncount = 0 AND t.attempts >= t.max_attempts THEN {now_ms} + CAST(:owed_ms AS bigint)
                     WHEN r.retry_ms = 0 THEN NULL
                     ELSE {now_ms} + COALESCE(r.retry_ms, {wait_ms} * (500 + r.draw / 2) / 1000) END,
    attempts = t.attempts - CASE WHEN r.held IS NULL THEN 0 ELSE r.uncount END, error = COALESCE(r.said, t.error),
    token = r.key, worker_id = '', updated_at = {now_ms} / 1000.0
FROM {rows} AS r
WHERE t.task_id = r.id
  AND (t.status = 'processing' AND t.token = r.held
       OR t.status = 'pending' AND r.held IS NULL AND COALESCE(t.token, '') <> r.key)
RETURNING task_id, status, token, queue_name, payload, error, attempts, max_attempts, due_at_ms;

-- fragment: wait_ms
CASE WHEN t.attempts > 20 OR (CAST(:base_ms AS bigint) << (CASE WHEN t.attempts < 1 THEN 0 ELSE t.attempts - 1 END)) > :cap_ms
     THEN CAST(:cap_ms AS bigint)
     ELSE CAST(:base_ms AS bigint) << (CASE WHEN t.attempts < 1 THEN 0 ELSE t.attempts - 1 END) END

-- name: tasks_extend
-- rows: id text, held text, for_ms bigint
-- A lease that is over but that nobody has taken since goes on.
UPDATE {tasks} AS t SET due_at_ms = {now_ms} + r.for_ms, updated_at = {now_ms} / 1000.0
FROM {rows} AS r
WHERE t.task_id = r.id AND t.status = 'processing' AND t.token = r.held;

-- name: tasks_letter_made
-- The dead letter of a task is no longer owed. No row, if it was not.
UPDATE {tasks} SET due_at_ms = NULL
WHERE task_id = :task_id AND status || '' = 'dead_lettered' AND due_at_ms IS NOT NULL;

-- name: task_get
SELECT {columns} FROM {tasks} AS t WHERE t.task_id = :task_id;

-- name: tasks_list
SELECT {columns} FROM {tasks} AS t
WHERE 1 = 1 [[ AND t.queue_name = :queue_name ]] [[ AND t.status = :status ]] [[ AND t.task_id > :after ]]
ORDER BY t.task_id LIMIT :most;

-- name: tasks_count
SELECT t.status, count(*) AS tasks FROM {tasks} AS t [[ WHERE t.queue_name = :queue_name ]] GROUP BY t.status;

-- name: tasks_purge
-- A bounded number of those that ended long enough ago; none whose dead letter is still owed.
DELETE FROM {tasks} WHERE task_id IN (
    SELECT t.task_id FROM {tasks} AS t
    WHERE t.status = :status AND t.status <> 'pending' AND t.status <> 'processing' AND t.due_at_ms IS NULL
      AND t.updated_at <= ({now_ms} - CAST(:older_ms AS bigint)) / 1000.0 [[ AND t.queue_name = :queue_name ]]
    ORDER BY t.updated_at LIMIT :most
);

-- name: worker_register
INSERT INTO @executors (
    incarnation, executor_id, hostname, pid, application_version, queues, beat_seq, lease_ms, started_at, last_beat_at
) VALUES (
    :incarnation, :executor_id, :hostname, :pid, NULL, :queues, 0, :lease_ms, {now_ms}, {now_ms}
);

-- name: worker_beat
UPDATE @executors SET beat_seq = beat_seq + 1, last_beat_at = {now_ms} WHERE incarnation = :incarnation;

-- name: workers_see
SELECT incarnation, beat_seq, lease_ms FROM @executors;

-- name: worker_remove
-- Exactly the beat that was seen not to move.
DELETE FROM @executors WHERE incarnation = :incarnation AND beat_seq = :beat_seq;

-- name: worker_leave
DELETE FROM @executors WHERE incarnation = :incarnation;
