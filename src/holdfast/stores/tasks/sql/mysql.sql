-- MariaDB/MySQL returns nothing from an UPDATE. A claim first picks and holds, the program decides, then it is written;
-- what fails is read again, in the same transaction. A write that joins begins with what is wanted (STRAIGHT_JOIN) and
-- finds the tasks by their key (FORCE INDEX): a small table would be walked from end to end, and every row on the way
-- waited for that somebody has locked.

-- fragment: hold_free
FOR UPDATE SKIP LOCKED

-- fragment: by_due_t
FORCE INDEX (idx_holdfast_task_queue_due)

-- name: task_table_create
CREATE TABLE IF NOT EXISTS {own_table} LIKE @holdfast_task_queue;

-- name: tasks_put
-- An id that comes in between the look and the insert is a conflict, and the next look sees it.
{put} LEFT JOIN {tasks} AS t ON t.task_id = r.id WHERE t.task_id IS NULL ORDER BY r.n;

-- name: tasks_pick
-- only: mysql
-- What a claim may take, by priority and then in the order in which it came, and what is due in this queue.
SELECT * FROM (
    SELECT {columns}, 0 AS spent, 1 AS ready, {now_ms} AS now_ms FROM {tasks} AS t FORCE INDEX (idx_holdfast_task_queue_ready)
    WHERE t.queue_name = :queue_name AND t.status = 'pending' AND t.due_at_ms IS NULL
    ORDER BY t.priority, t.sequence LIMIT :most FOR UPDATE SKIP LOCKED
) AS ready
UNION ALL
SELECT * FROM (
    SELECT {columns}, {t_spent}, 0 AS ready, {now_ms} AS now_ms FROM {tasks} AS t FORCE INDEX (idx_holdfast_task_queue_due)
    WHERE t.queue_name = :queue_name AND t.due_at_ms <= {now_ms}
    ORDER BY t.due_at_ms LIMIT :most_due FOR UPDATE SKIP LOCKED
) AS due;

-- name: tasks_take
-- rows: id text, token text, worker_id text, said text
-- only: mysql
-- pending -> processing for tasks that this transaction holds.
UPDATE {rows} AS r STRAIGHT_JOIN {tasks} AS t FORCE INDEX (PRIMARY) ON t.task_id = r.id
SET t.status = 'processing', t.attempts = t.attempts + 1, t.token = r.token, t.worker_id = r.worker_id,
    t.error = COALESCE(r.said, t.error),
    t.due_at_ms = {now_ms} + t.visibility_timeout * 1000, t.updated_at = {now_ms} / 1000.0;

-- name: tasks_give_up
UPDATE {rows} AS r STRAIGHT_JOIN {tasks} AS t FORCE INDEX (PRIMARY) ON t.task_id = r.id
SET t.error = COALESCE(r.said, t.error),
    t.status = CASE WHEN r.spent = 1 THEN 'dead_lettered' ELSE 'pending' END,
    t.due_at_ms = CASE WHEN r.spent = 1 THEN {now_ms} + :owed_ms END,
    t.worker_id = '', t.updated_at = {now_ms} / 1000.0;

-- name: tasks_complete
UPDATE {rows} AS r STRAIGHT_JOIN {tasks} AS t FORCE INDEX (PRIMARY) ON t.task_id = r.id
SET t.status = 'completed', t.token = r.key, t.worker_id = '', t.due_at_ms = NULL, t.updated_at = {now_ms} / 1000.0
WHERE t.status = 'processing' AND t.token = r.held OR t.status = 'pending' AND (r.held IS NULL OR t.token = r.held);

-- name: tasks_fail
-- No assignment reads what another changes: their order is not defined where tables are joined.
UPDATE {rows} AS r STRAIGHT_JOIN {tasks} AS t FORCE INDEX (PRIMARY) ON t.task_id = r.id
SET t.status = CASE WHEN r.uncount = 0 AND t.attempts >= t.max_attempts THEN 'dead_lettered' ELSE 'pending' END,
    t.due_at_ms = CASE WHEN r.uncount = 0 AND t.attempts >= t.max_attempts THEN {now_ms} + :owed_ms
                       WHEN r.retry_ms = 0 THEN NULL
                       ELSE {now_ms} + COALESCE(r.retry_ms, {wait_ms} * (500 + r.draw DIV 2) DIV 1000) END,
    t.attempts = t.attempts - CASE WHEN r.held IS NULL THEN 0 ELSE r.uncount END, t.error = COALESCE(r.said, t.error),
    t.token = r.key, t.worker_id = '', t.updated_at = {now_ms} / 1000.0
WHERE t.status = 'processing' AND t.token = r.held
   OR t.status = 'pending' AND r.held IS NULL AND COALESCE(t.token, '') <> r.key;
SELECT t.task_id, t.status, t.token, t.queue_name, t.payload, t.error, t.attempts, t.max_attempts, t.due_at_ms
FROM {rows} AS r JOIN {tasks} AS t ON t.task_id = r.id AND t.token = r.key AND t.status <> 'processing';

-- fragment: wait_ms
LEAST(:cap_ms, :base_ms << LEAST(GREATEST(t.attempts - 1, 0), 20))

-- name: tasks_extend
UPDATE {rows} AS r STRAIGHT_JOIN {tasks} AS t FORCE INDEX (PRIMARY) ON t.task_id = r.id AND t.token = r.held
SET t.due_at_ms = {now_ms} + r.for_ms, t.updated_at = {now_ms} / 1000.0
WHERE t.status = 'processing';

-- name: tasks_letter_made
UPDATE {tasks} SET due_at_ms = NULL
WHERE task_id = :task_id AND status = 'dead_lettered' AND due_at_ms IS NOT NULL;

-- name: tasks_purge
DELETE FROM {tasks}
WHERE status = :status AND due_at_ms IS NULL AND updated_at <= ({now_ms} - :older_ms) / 1000.0
  [[ AND queue_name = :queue_name ]]
ORDER BY updated_at LIMIT :most;
