-- Streams of runs. PostgreSQL and SQLite share this text; MariaDB/MySQL has its own where it must differ.
--
-- A row without a serialization is none of the user's values: the end of a stream, which is always its last row, or the
-- mark that what an attempt had written was thrown away. Whoever writes holds the run's row under its token, so offsets
-- are counted by one at a time.

-- fragment: share_runs
-- The guard of a write: it holds the run's row until commit, rows in id order so that two batches cannot wait for each
-- other. A foreign key's lock would not stop a token from changing.
ORDER BY w.workflow_uuid FOR SHARE OF w

-- fragment: hold_runs
ORDER BY w.workflow_uuid FOR UPDATE OF w

-- name: streams_tail
-- rows: id text, stream text
-- Where each stream ends, and whether it is closed; nothing of a stream that is empty. The last offset is said so that
-- MariaDB takes one step from the end of the index for each stream: max() of several streams would walk through them.
SELECT
    r.id, r.stream, t."offset" AS last_offset,
    CASE WHEN t.serialization IS NULL AND t.value = :closed THEN 1 ELSE 0 END AS closed
FROM {rows} AS r
JOIN @streams AS t ON t.workflow_uuid = r.id AND t."key" = r.stream AND t."offset" = (
    SELECT s."offset" FROM @streams AS s WHERE s.workflow_uuid = r.id AND s."key" = r.stream
    ORDER BY s."offset" DESC LIMIT 1
);

-- name: stream_append
-- rows: id text, stream text, place int, value text, position int, serialization text, attempt int, entry_no int
INSERT INTO @streams (workflow_uuid, "key", "offset", value, function_id, serialization, attempt, entry_no)
SELECT r.id, r.stream, r.place, r.value, r.position, r.serialization, r.attempt, r.entry_no FROM {rows} AS r;

-- name: live_guard
-- rows: id text, token text, identity text, position int
-- The runs that have these tokens and have not ended, held until commit, and whether the operation is recorded: then its
-- attempts are over.
SELECT r.id, r.identity, o.function_id AS recorded
FROM {rows} AS r
JOIN @workflow_status AS w ON w.workflow_uuid = r.id AND CASE WHEN w.status = 'PENDING' THEN w.owner_xid END = r.token
LEFT JOIN @operation_outputs AS o
    ON o.workflow_uuid = r.id AND o.function_id = r.position AND o.identity = r.identity
WHERE true
{share_runs};

-- name: runs_hold_to_ask
-- rows: id text
-- Waits until no earlier transaction of ours holds these runs any more, and keeps others from beginning.
SELECT w.workflow_uuid FROM {rows} AS r JOIN @workflow_status AS w ON w.workflow_uuid = r.id
{hold_runs};

-- name: live_look
-- rows: id text, identity text, stream text, token text, attempt int, entry_no int
-- Which entries of live attempts are there. Only what its attempt has written is searched.
SELECT r.id, r.identity, r.stream, r.attempt, r.entry_no
FROM {rows} AS r
JOIN @stream_attempts AS a ON a.workflow_uuid = r.id AND a.identity = r.identity AND a."key" = r.stream
    AND a.owner_xid = r.token AND a.attempt = r.attempt
JOIN @streams AS s ON s.workflow_uuid = r.id AND s."key" = r.stream AND s."offset" >= a.first_offset
    AND s.function_id = a.function_id AND s.attempt = r.attempt AND s.entry_no = r.entry_no;

-- name: attempts_of
-- rows: id text, identity text
SELECT
    a.workflow_uuid AS id, a.identity, a."key" AS stream, a.owner_xid, a.attempt, a.function_id, a.first_offset
FROM {rows} AS r JOIN @stream_attempts AS a ON a.workflow_uuid = r.id AND a.identity = r.identity;

-- name: attempts_of_runs
-- rows: id text, token text
-- What executions that were lost have left behind, of runs that have these tokens now; the runs are held until commit.
SELECT
    a.workflow_uuid AS id, a.identity, a."key" AS stream, a.owner_xid, a.attempt, a.function_id, a.first_offset
FROM {rows} AS r
JOIN @workflow_status AS w ON w.workflow_uuid = r.id AND w.owner_xid = r.token
JOIN @stream_attempts AS a ON a.workflow_uuid = r.id AND a.owner_xid <> r.token
WHERE true
{share_runs};

-- name: attempt_open
-- rows: id text, identity text, stream text, token text, attempt int, position int, first_offset int
INSERT INTO @stream_attempts (workflow_uuid, identity, "key", owner_xid, attempt, function_id, first_offset)
SELECT r.id, r.identity, r.stream, r.token, r.attempt, r.position, r.first_offset FROM {rows} AS r;

-- name: attempts_forget
-- rows: id text, identity text, stream text
DELETE FROM @stream_attempts
WHERE (workflow_uuid, identity, "key") IN (SELECT r.id, r.identity, r.stream FROM {rows} AS r);

-- name: entries_throw
-- rows: id text, stream text, first_offset int, position int, attempt int
-- What an attempt has written. Their offsets are not given to others.
DELETE FROM @streams
WHERE (workflow_uuid, "key", "offset") IN (
    SELECT s.workflow_uuid, s."key", s."offset" FROM {rows} AS r
    JOIN @streams AS s ON s.workflow_uuid = r.id AND s."key" = r.stream AND s."offset" >= r.first_offset
        AND s.function_id = r.position AND s.attempt = r.attempt
);

-- name: streams_stand
-- rows: id text, stream text
-- Where each stream ends and how its run stands, as one moment saw them; no status if there is no such run.
SELECT
    r.n, w.status, t."offset" AS last_offset,
    CASE WHEN t.serialization IS NULL AND t.value = :closed THEN 1 ELSE 0 END AS closed
FROM {rows} AS r
LEFT JOIN @workflow_status AS w ON w.workflow_uuid = r.id
LEFT JOIN @streams AS t ON t.workflow_uuid = r.id AND t."key" = r.stream AND t."offset" = (
    SELECT s."offset" FROM @streams AS s WHERE s.workflow_uuid = r.id AND s."key" = r.stream
    ORDER BY s."offset" DESC LIMIT 1
);

-- name: stream_chunk
-- Entries of a stretch of offsets. For one who reads: MariaDB finds no stretch by the columns of a table of many.
SELECT s."offset" AS place, s.value, s.serialization FROM @streams AS s
WHERE s.workflow_uuid = :id AND s."key" = :stream AND s."offset" >= :low AND s."offset" <= :high
ORDER BY s."offset";

-- name: streams_of_run
-- All values of all streams of a run, without what is not a value.
SELECT s."key" AS stream, s."offset" AS place, s.value, s.serialization FROM @streams AS s
WHERE s.workflow_uuid = :workflow_id AND s.serialization IS NOT NULL
ORDER BY s."key", s."offset";

-- name: streams_list
-- The streams of a run: how many values each has, and whether it is closed.
SELECT
    s."key" AS stream, count(s.serialization) AS entries, max(s."offset") AS last_offset,
    max(CASE WHEN s.serialization IS NULL AND s.value = :closed THEN 1 ELSE 0 END) AS closed
FROM @streams AS s WHERE s.workflow_uuid = :workflow_id
GROUP BY s."key" ORDER BY s."key";

-- name: stream_run_there
SELECT w.status FROM @workflow_status AS w WHERE w.workflow_uuid = :workflow_id;
