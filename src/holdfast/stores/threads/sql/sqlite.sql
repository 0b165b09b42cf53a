-- fragment: large_channel
json_extract(j.value, '$[0]')

-- fragment: large_version
json_extract(j.value, '$[1]')

-- fragment: large_items
CROSS JOIN json_each(p.large) AS j

-- fragment: hold_value

-- fragment: hold_checkpoint

-- fragment: take_value

-- fragment: take_checkpoint

-- name: checkpoint_put
-- only: sqlite
-- Here a statement costs no round trip, and a large value that is bound by itself is copied once.
INSERT INTO @holdfast_thread_checkpoints (
    thread_id, checkpoint_ns, checkpoint_id, parent_id, run_id, format, data, metadata, large
)
VALUES (:thread_id, :checkpoint_ns, :name, :other, :run_id, :format, :data, :metadata, :large)
{or_put_anew};

-- name: value_put
-- only: sqlite
INSERT INTO @holdfast_thread_values (thread_id, checkpoint_ns, channel, version, format, data)
VALUES (:thread_id, :checkpoint_ns, :name, :other, :format, :data)
ON CONFLICT DO NOTHING;

-- name: write_put
-- only: sqlite
-- What a task has written stays; its errors, interrupts and answers, whose places are negative, are replaced.
INSERT INTO @holdfast_thread_writes AS w (
    thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, format, data, task_path
)
VALUES (:thread_id, :checkpoint_ns, :checkpoint_id, :task_id, :idx, :channel, :format, :data, :task_path)
ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id, task_id, idx) DO UPDATE
SET channel = excluded.channel, format = excluded.format, data = excluded.data, task_path = excluded.task_path
WHERE w.idx < 0;

-- name: thread_read
-- only: sqlite
-- Checkpoints, newest first, with their data where that is short. A thread that reads here asks for the rest one by one,
-- and for writes where there are any: SQLite would copy all of them several times in one answer.
SELECT
    c.thread_id, c.checkpoint_ns, c.checkpoint_id, c.parent_id, c.format,
    CASE WHEN length(c.data) <= :most_bytes THEN c.data END AS data, c.metadata, c.large,
    EXISTS (
        SELECT 1 FROM @holdfast_thread_writes AS w
        WHERE w.thread_id = c.thread_id AND w.checkpoint_ns = c.checkpoint_ns AND w.checkpoint_id = c.checkpoint_id
    ) AS has_writes
FROM @holdfast_thread_checkpoints AS c
{paged};

-- name: thread_keys
-- only: sqlite
-- The keys of checkpoints of all threads, newest first: the primary key has them in another order, and all of them.
-- Another index would be one more page to write for every checkpoint.
SELECT thread_id, checkpoint_ns, checkpoint_id
FROM @holdfast_thread_checkpoints
{paged};

-- name: thread_data
-- only: sqlite
SELECT data FROM @holdfast_thread_checkpoints
WHERE thread_id = :thread_id AND checkpoint_ns = :checkpoint_ns AND checkpoint_id = :checkpoint_id;

-- name: thread_value
-- only: sqlite
SELECT format, data FROM @holdfast_thread_values
WHERE thread_id = :thread_id AND checkpoint_ns = :checkpoint_ns AND channel = :channel AND version = :version;

-- name: thread_written
-- only: sqlite
SELECT task_id, idx, channel, format, data, task_path FROM @holdfast_thread_writes
WHERE thread_id = :thread_id AND checkpoint_ns = :checkpoint_ns AND checkpoint_id = :checkpoint_id;

-- name: reader_settings
-- only: sqlite
-- A cache of 16 MiB, so that large values of some threads stay at hand.
PRAGMA query_only = ON;
PRAGMA cache_size = -16384;
