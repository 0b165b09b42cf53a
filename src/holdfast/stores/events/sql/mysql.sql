-- MariaDB/MySQL writes first and then reads what came of it, in the same transaction.

-- name: streams_raise
INSERT INTO @holdfast_event_streams (stream_key, last_sequence, last_timestamp)
SELECT r.stream_key, r.added, {now_iso} FROM {rows} AS r
ORDER BY r.stream_key
ON DUPLICATE KEY UPDATE
    last_sequence = @holdfast_event_streams.last_sequence + VALUES(last_sequence),
    last_timestamp = GREATEST(@holdfast_event_streams.last_timestamp, VALUES(last_timestamp));
SELECT s.stream_key, s.last_sequence, s.last_timestamp
FROM {rows} AS r STRAIGHT_JOIN @holdfast_event_streams AS s FORCE INDEX (PRIMARY) ON s.stream_key = r.stream_key;

-- name: events_prune
DELETE FROM @holdfast_events WHERE "timestamp" < :before ORDER BY "timestamp", id LIMIT :most;
