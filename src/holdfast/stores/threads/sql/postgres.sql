-- name: thread_put
-- only: postgres, mysql
-- rows: part int, thread_id text, checkpoint_ns text, name text, other text, run_id text, format text, data bytes
-- rows: metadata text, large text
-- Part 0 is a checkpoint (its id, its parent), part 1 a large value (its channel, its version), which never changes.
-- One statement, so that a lone checkpoint needs one round trip. A value that is there is touched, which locks it: nobody
-- deletes it before the checkpoint that has it can be seen.
WITH larger AS (
    INSERT INTO @holdfast_thread_values (thread_id, checkpoint_ns, channel, version, format, data)
    SELECT r.thread_id, r.checkpoint_ns, r.name, r.other, r.format, r.data FROM {rows} AS r WHERE r.part = 1
    ON CONFLICT (thread_id, checkpoint_ns, channel, version) DO UPDATE SET version = excluded.version
)
{new_checkpoints} WHERE r.part = 0
{or_put_anew};

-- name: thread_put_writes
-- only: postgres, mysql
-- rows: part int, thread_id text, checkpoint_ns text, checkpoint_id text, task_id text, idx int, channel text
-- rows: format text, data bytes, task_path text
-- What a task has written stays; its errors, interrupts and answers, whose places are negative, are replaced.
INSERT INTO @holdfast_thread_writes AS w (
    thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, format, data, task_path
)
SELECT r.thread_id, r.checkpoint_ns, r.checkpoint_id, r.task_id, r.idx, r.channel, r.format, r.data, r.task_path
FROM {rows} AS r WHERE true
ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id, task_id, idx) DO UPDATE
SET channel = excluded.channel, format = excluded.format, data = excluded.data, task_path = excluded.task_path
WHERE w.idx < 0;

-- name: thread_copy
-- One statement, so that all of it is of one moment. What the target has already stays as it is and is touched, as by
-- thread_put: nobody deletes it before the checkpoints that need it can be seen, and what was just deleted is put again.
WITH copied_values AS (
    INSERT INTO @holdfast_thread_values (thread_id, checkpoint_ns, channel, version, format, data)
    SELECT :target, checkpoint_ns, channel, version, format, data FROM @holdfast_thread_values
    WHERE thread_id = :source ORDER BY checkpoint_ns, channel, version
    ON CONFLICT (thread_id, checkpoint_ns, channel, version) DO UPDATE SET version = excluded.version
), copied_writes AS (
    INSERT INTO @holdfast_thread_writes (
        thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, format, data, task_path
    )
    SELECT :target, checkpoint_ns, checkpoint_id, task_id, idx, channel, format, data, task_path
    FROM @holdfast_thread_writes WHERE thread_id = :source
    ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id, task_id, idx) DO UPDATE SET idx = excluded.idx
)
INSERT INTO @holdfast_thread_checkpoints (
    thread_id, checkpoint_ns, checkpoint_id, parent_id, run_id, format, data, metadata, large
)
SELECT :target, checkpoint_ns, checkpoint_id, parent_id, run_id, format, data, metadata, large
FROM @holdfast_thread_checkpoints WHERE thread_id = :source
ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id) DO UPDATE SET checkpoint_id = excluded.checkpoint_id;

-- name: thread_find
-- only: postgres
-- One checkpoint, by default the newest, with its large values and the writes on top of it as arrays in its row: to set
-- up the three parts of a page takes the server longer than to find what they are for.
SELECT
    c.checkpoint_id, c.parent_id, c.format, c.data, c.metadata, c.large,
    CASE WHEN c.large <> '[]' THEN ARRAY(
        SELECT ROW(v.channel, v.version, v.format, v.data)
        FROM json_array_elements(CAST(c.large AS json)) AS j(item) JOIN @holdfast_thread_values AS v
            ON v.thread_id = c.thread_id AND v.checkpoint_ns = c.checkpoint_ns
            AND v.channel = j.item ->> 0 AND v.version = j.item ->> 1
    ) END AS large_values,
    ARRAY(
        SELECT ROW(w.task_id, w.idx, w.channel, w.format, w.data, w.task_path)
        FROM @holdfast_thread_writes AS w
        WHERE w.thread_id = c.thread_id AND w.checkpoint_ns = c.checkpoint_ns AND w.checkpoint_id = c.checkpoint_id
    ) AS writes
FROM @holdfast_thread_checkpoints AS c
WHERE c.thread_id = :thread_id AND c.checkpoint_ns = :checkpoint_ns
    [[ AND c.checkpoint_id = :checkpoint_id ]]
ORDER BY c.checkpoint_id DESC
LIMIT 1;

-- fragment: large_channel
j.item ->> 0

-- fragment: large_version
j.item ->> 1

-- fragment: large_items
CROSS JOIN LATERAL json_array_elements(CAST(p.large AS json)) AS j(item)

-- fragment: hold_value
FOR SHARE OF v

-- fragment: hold_checkpoint
FOR SHARE OF c

-- fragment: take_value
FOR UPDATE OF v

-- fragment: take_checkpoint
FOR UPDATE OF c
