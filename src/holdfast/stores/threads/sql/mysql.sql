-- name: thread_put
-- only: postgres, mysql
-- rows: part int, thread_id text, checkpoint_ns text, name text, other text, run_id text, format text, data bytes
-- rows: metadata text, large text
INSERT INTO @holdfast_thread_values (thread_id, checkpoint_ns, channel, version, format, data)
SELECT r.thread_id, r.checkpoint_ns, r.name, r.other, r.format, r.data FROM {rows} AS r WHERE r.part = 1
ON DUPLICATE KEY UPDATE version = VALUES(version);
{new_checkpoints} WHERE r.part = 0
{or_put_anew};

-- fragment: or_put_anew
ON DUPLICATE KEY UPDATE
    parent_id = VALUES(parent_id), run_id = VALUES(run_id), format = VALUES(format), data = VALUES(data),
    metadata = VALUES(metadata), large = VALUES(large)

-- name: thread_put_writes
-- only: postgres, mysql
-- rows: part int, thread_id text, checkpoint_ns text, checkpoint_id text, task_id text, idx int, channel text
-- rows: format text, data bytes, task_path text
INSERT INTO @holdfast_thread_writes (
    thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, format, data, task_path
)
SELECT r.thread_id, r.checkpoint_ns, r.checkpoint_id, r.task_id, r.idx, r.channel, r.format, r.data, r.task_path
FROM {rows} AS r
ON DUPLICATE KEY UPDATE
    channel = IF(holdfast_thread_writes.idx < 0, VALUES(channel), holdfast_thread_writes.channel),
    format = IF(holdfast_thread_writes.idx < 0, VALUES(format), holdfast_thread_writes.format),
    data = IF(holdfast_thread_writes.idx < 0, VALUES(data), holdfast_thread_writes.data),
    task_path = IF(holdfast_thread_writes.idx < 0, VALUES(task_path), holdfast_thread_writes.task_path);

-- fragment: large_channel
j.channel

-- fragment: large_version
j.version

-- fragment: large_items
-- In the collation of the keys, which MariaDB and MySQL call differently: in that of the database two names may be one.
CROSS JOIN JSON_TABLE(p.large, '$[*]' COLUMNS (
    channel VARCHAR(128) CHARACTER SET utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */ PATH '$[0]',
    version VARCHAR(64) CHARACTER SET utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */ PATH '$[1]'
)) AS j

-- name: values_hold
SELECT v.thread_id, v.checkpoint_ns, v.channel, v.version
FROM {rows} AS r STRAIGHT_JOIN @holdfast_thread_values AS v FORCE INDEX (PRIMARY)
    ON v.thread_id = r.thread_id AND v.checkpoint_ns = r.checkpoint_ns
    AND v.channel = r.channel AND v.version = r.version
LOCK IN SHARE MODE;

-- name: values_take
SELECT v.thread_id, v.checkpoint_ns, v.channel, v.version
FROM {rows} AS r STRAIGHT_JOIN @holdfast_thread_values AS v FORCE INDEX (PRIMARY)
    ON v.thread_id = r.thread_id AND v.checkpoint_ns = r.checkpoint_ns
    AND v.channel = r.channel AND v.version = r.version
FOR UPDATE;

-- name: checkpoints_hold
SELECT c.thread_id, c.checkpoint_ns, c.checkpoint_id
FROM {rows} AS r STRAIGHT_JOIN @holdfast_thread_checkpoints AS c FORCE INDEX (PRIMARY)
    ON c.thread_id = r.thread_id AND c.checkpoint_ns = r.checkpoint_ns AND c.checkpoint_id = r.checkpoint_id
LOCK IN SHARE MODE;

-- name: checkpoints_take
SELECT c.thread_id, c.checkpoint_ns, c.checkpoint_id
FROM {rows} AS r STRAIGHT_JOIN @holdfast_thread_checkpoints AS c FORCE INDEX (PRIMARY)
    ON c.thread_id = r.thread_id AND c.checkpoint_ns = r.checkpoint_ns AND c.checkpoint_id = r.checkpoint_id
FOR UPDATE;

-- name: checkpoints_delete
DELETE w FROM {rows} AS r STRAIGHT_JOIN @holdfast_thread_writes AS w FORCE INDEX (PRIMARY)
    ON w.thread_id = r.thread_id AND w.checkpoint_ns = r.checkpoint_ns AND w.checkpoint_id = r.checkpoint_id;
DELETE c FROM {rows} AS r STRAIGHT_JOIN @holdfast_thread_checkpoints AS c FORCE INDEX (PRIMARY)
    ON c.thread_id = r.thread_id AND c.checkpoint_ns = r.checkpoint_ns AND c.checkpoint_id = r.checkpoint_id;

-- name: values_delete
DELETE v FROM {rows} AS r STRAIGHT_JOIN @holdfast_thread_values AS v FORCE INDEX (PRIMARY)
    ON v.thread_id = r.thread_id AND v.checkpoint_ns = r.checkpoint_ns
    AND v.channel = r.channel AND v.version = r.version;

-- name: thread_copy
INSERT INTO @holdfast_thread_values (thread_id, checkpoint_ns, channel, version, format, data)
SELECT :target, s.checkpoint_ns, s.channel, s.version, s.format, s.data FROM @holdfast_thread_values AS s
WHERE s.thread_id = :source
ON DUPLICATE KEY UPDATE version = VALUES(version);
INSERT INTO @holdfast_thread_writes (
    thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, format, data, task_path
)
SELECT :target, s.checkpoint_ns, s.checkpoint_id, s.task_id, s.idx, s.channel, s.format, s.data, s.task_path
FROM @holdfast_thread_writes AS s WHERE s.thread_id = :source
ON DUPLICATE KEY UPDATE idx = VALUES(idx);
INSERT INTO @holdfast_thread_checkpoints (
    thread_id, checkpoint_ns, checkpoint_id, parent_id, run_id, format, data, metadata, large
)
SELECT :target, s.checkpoint_ns, s.checkpoint_id, s.parent_id, s.run_id, s.format, s.data, s.metadata, s.large
FROM @holdfast_thread_checkpoints AS s WHERE s.thread_id = :source
ON DUPLICATE KEY UPDATE checkpoint_id = VALUES(checkpoint_id);
