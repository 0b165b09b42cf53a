-- The event log. PostgreSQL and SQLite share this text; MariaDB/MySQL has its own under the same names where it must.
--
-- An append takes its numbers from the rows of its streams in holdfast_event_streams, which it holds until commit, in
-- the order of their keys. So numbers have no gaps, outlive the events, and a later one is never seen before an earlier
-- one. An event is not older than the one before it, whatever the clock does.

-- name: streams_raise
-- rows: stream_key text, added bigint
-- The last number of each stream after so many were added; with 0 it is only held, and made if it is not there.
INSERT INTO @holdfast_event_streams AS s (stream_key, last_sequence, last_timestamp)
SELECT r.stream_key, r.added, {now_iso} FROM {rows} AS r
WHERE true
ORDER BY r.stream_key
ON CONFLICT (stream_key) DO UPDATE SET
    last_sequence = s.last_sequence + excluded.last_sequence,
    last_timestamp = CASE WHEN excluded.last_timestamp > s.last_timestamp
        THEN excluded.last_timestamp ELSE s.last_timestamp END
RETURNING stream_key, last_sequence, last_timestamp;

-- name: events_insert
-- rows: stream_key text, sequence bigint, event_type text, data text, append_key text, written_at text
INSERT INTO @holdfast_events (stream_key, sequence, event_type, data, append_key, "timestamp")
SELECT r.stream_key, r.sequence, r.event_type, r.data, r.append_key, r.written_at FROM {rows} AS r;

-- name: appends_look
-- rows: stream_key text, append_key text
-- The first event of each append that is there.
SELECT e.stream_key, e.append_key, e.sequence, e."timestamp"
FROM {rows} AS r JOIN @holdfast_events AS e ON e.stream_key = r.stream_key AND e.append_key = r.append_key;

-- name: streams_look
-- rows: stream_key text
SELECT s.stream_key, s.last_sequence
FROM {rows} AS r JOIN @holdfast_event_streams AS s ON s.stream_key = r.stream_key;

-- name: stream_last
SELECT last_sequence FROM @holdfast_event_streams WHERE stream_key = :stream_key;

-- name: events_after
SELECT sequence, data, "timestamp" FROM @holdfast_events
WHERE stream_key = :stream_key AND sequence > :after_sequence
ORDER BY sequence
[[ LIMIT :most ]];

-- name: events_count
SELECT count(*) AS events FROM @holdfast_events WHERE stream_key = :stream_key;

-- name: stream_keys
-- The streams that have events. Each is looked at by itself: PostgreSQL would read all events to join them, while it
-- takes them for few.
SELECT s.stream_key FROM @holdfast_event_streams AS s
WHERE (SELECT 1 FROM @holdfast_events AS e WHERE e.stream_key = s.stream_key LIMIT 1) = 1
  [[ AND s.stream_key > :after_key ]]
ORDER BY s.stream_key
[[ LIMIT :most ]];

-- fragment: skip_locked
FOR UPDATE SKIP LOCKED

-- name: events_prune
-- The oldest first, a bounded number; what another process is pruning is left to it.
DELETE FROM @holdfast_events WHERE id IN (
    SELECT e.id FROM @holdfast_events AS e
    WHERE e."timestamp" < :before
    ORDER BY e."timestamp", e.id
    LIMIT :most
    {skip_locked}
);
