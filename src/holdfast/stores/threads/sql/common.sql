-- Checkpoints of conversation threads.

-- fragment: paged
WHERE true
    [[ AND thread_id = :thread_id ]]
    [[ AND checkpoint_ns = :checkpoint_ns ]]
    [[ AND checkpoint_id = :checkpoint_id ]]
    [[ AND checkpoint_id < :before ]]
    [[ AND (checkpoint_id < :after_id OR (checkpoint_id = :after_id
        AND (thread_id > :after_thread OR (thread_id = :after_thread AND checkpoint_ns > :after_ns)))) ]]
ORDER BY checkpoint_id DESC, thread_id, checkpoint_ns
LIMIT :most

-- name: thread_page
-- Checkpoints, newest first (part 0), the large values they have (part 1), and the writes on top of them (part 2): all of
-- them in one answer, so that a checkpoint costs one round trip.
WITH page AS (
    SELECT thread_id, checkpoint_ns, checkpoint_id, parent_id, format, data, metadata, large
    FROM @holdfast_thread_checkpoints
    {paged}
)
SELECT
    0 AS part, thread_id, checkpoint_ns, checkpoint_id AS name, parent_id AS other, 0 AS idx, NULL AS channel,
    format, data, metadata, large
FROM page
UNION ALL
SELECT 1, v.thread_id, v.checkpoint_ns, v.channel, v.version, 0, NULL, v.format, v.data, NULL, NULL
FROM (
    SELECT DISTINCT p.thread_id, p.checkpoint_ns, {large_channel} AS channel, {large_version} AS version
    FROM page AS p {large_items}
) AS wanted JOIN @holdfast_thread_values AS v
    ON v.thread_id = wanted.thread_id AND v.checkpoint_ns = wanted.checkpoint_ns
    AND v.channel = wanted.channel AND v.version = wanted.version
UNION ALL
SELECT 2, w.thread_id, w.checkpoint_ns, w.checkpoint_id, w.task_id, w.idx, w.channel, w.format, w.data, w.task_path, NULL
FROM page AS p JOIN @holdfast_thread_writes AS w
    ON w.thread_id = p.thread_id AND w.checkpoint_ns = p.checkpoint_ns AND w.checkpoint_id = p.checkpoint_id;

-- name: thread_skeleton
-- rows: thread_id text
SELECT c.thread_id, c.checkpoint_ns, c.checkpoint_id, c.parent_id, c.metadata, c.large
FROM {rows} AS r JOIN @holdfast_thread_checkpoints AS c ON c.thread_id = r.thread_id;

-- name: values_hold
-- rows: thread_id text, checkpoint_ns text, channel text, version text
-- Those that are there. They stay until the end of the transaction: on SQLite because nobody else writes meanwhile.
SELECT v.thread_id, v.checkpoint_ns, v.channel, v.version
FROM {rows} AS r JOIN @holdfast_thread_values AS v
    ON v.thread_id = r.thread_id AND v.checkpoint_ns = r.checkpoint_ns
    AND v.channel = r.channel AND v.version = r.version {hold_value};

-- name: values_take
-- rows: thread_id text, checkpoint_ns text, channel text, version text
-- Wait for whoever holds them; nobody else holds them before the end of the transaction.
SELECT v.thread_id, v.checkpoint_ns, v.channel, v.version
FROM {rows} AS r JOIN @holdfast_thread_values AS v
    ON v.thread_id = r.thread_id AND v.checkpoint_ns = r.checkpoint_ns
    AND v.channel = r.channel AND v.version = r.version {take_value};

-- name: checkpoints_hold
-- rows: thread_id text, checkpoint_ns text, checkpoint_id text
SELECT c.thread_id, c.checkpoint_ns, c.checkpoint_id
FROM {rows} AS r JOIN @holdfast_thread_checkpoints AS c
    ON c.thread_id = r.thread_id AND c.checkpoint_ns = r.checkpoint_ns AND c.checkpoint_id = r.checkpoint_id
    {hold_checkpoint};

-- name: checkpoints_take
-- rows: thread_id text, checkpoint_ns text, checkpoint_id text
SELECT c.thread_id, c.checkpoint_ns, c.checkpoint_id
FROM {rows} AS r JOIN @holdfast_thread_checkpoints AS c
    ON c.thread_id = r.thread_id AND c.checkpoint_ns = r.checkpoint_ns AND c.checkpoint_id = r.checkpoint_id
    {take_checkpoint};

-- name: run_checkpoints
-- rows: run_id text
SELECT c.thread_id, c.checkpoint_ns, c.checkpoint_id
FROM {rows} AS r JOIN @holdfast_thread_checkpoints AS c ON c.run_id = r.run_id;

-- name: checkpoints_delete
-- rows: thread_id text, checkpoint_ns text, checkpoint_id text
DELETE FROM @holdfast_thread_writes WHERE (thread_id, checkpoint_ns, checkpoint_id) IN (
    SELECT r.thread_id, r.checkpoint_ns, r.checkpoint_id FROM {rows} AS r
);
DELETE FROM @holdfast_thread_checkpoints WHERE (thread_id, checkpoint_ns, checkpoint_id) IN (
    SELECT r.thread_id, r.checkpoint_ns, r.checkpoint_id FROM {rows} AS r
);

-- name: values_delete
-- rows: thread_id text, checkpoint_ns text, channel text, version text
DELETE FROM @holdfast_thread_values WHERE (thread_id, checkpoint_ns, channel, version) IN (
    SELECT r.thread_id, r.checkpoint_ns, r.channel, r.version FROM {rows} AS r
);

-- fragment: new_checkpoints
INSERT INTO @holdfast_thread_checkpoints (
    thread_id, checkpoint_ns, checkpoint_id, parent_id, run_id, format, data, metadata, large
)
SELECT r.thread_id, r.checkpoint_ns, r.name, r.other, r.run_id, r.format, r.data, r.metadata, r.large
FROM {rows} AS r

-- fragment: or_put_anew
ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id) DO UPDATE
SET parent_id = excluded.parent_id, run_id = excluded.run_id, format = excluded.format, data = excluded.data,
    metadata = excluded.metadata, large = excluded.large

-- name: checkpoints_put
-- only: postgres, mysql
-- rows: part int, thread_id text, checkpoint_ns text, name text, other text, run_id text, format text, data bytes
-- rows: metadata text, large text
-- Checkpoints without large values.
{new_checkpoints} {or_put_anew};

-- name: thread_delete
-- Values first: that waits for checkpoints that are being put and have one of them, and those are then deleted too.
DELETE FROM @holdfast_thread_values WHERE thread_id = :thread_id;
DELETE FROM @holdfast_thread_writes WHERE thread_id = :thread_id;
DELETE FROM @holdfast_thread_checkpoints WHERE thread_id = :thread_id;

-- name: thread_copy
-- What the target has already stays as it is.
INSERT INTO @holdfast_thread_values (thread_id, checkpoint_ns, channel, version, format, data)
SELECT :target, checkpoint_ns, channel, version, format, data FROM @holdfast_thread_values
WHERE thread_id = :source
ON CONFLICT DO NOTHING;
INSERT INTO @holdfast_thread_writes (
    thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, format, data, task_path
)
SELECT :target, checkpoint_ns, checkpoint_id, task_id, idx, channel, format, data, task_path
FROM @holdfast_thread_writes WHERE thread_id = :source
ON CONFLICT DO NOTHING;
INSERT INTO @holdfast_thread_checkpoints (
    thread_id, checkpoint_ns, checkpoint_id, parent_id, run_id, format, data, metadata, large
)
SELECT :target, checkpoint_ns, checkpoint_id, parent_id, run_id, format, data, metadata, large
FROM @holdfast_thread_checkpoints WHERE thread_id = :source
ON CONFLICT DO NOTHING;
