-- fragment: skip_locked
-- One writer is lock enough here.

-- name: event_append
-- only: sqlite
-- rows: stream_key text, place bigint, event_type text, data text, append_key text
-- Appends of one event each in one statement, which needs no transaction around it: a trigger raises their streams.
-- place is how many events of the batch go before it in its stream. The rows are gathered before the first is inserted,
-- since there is a trigger: all of them find their streams as they were.
INSERT INTO @holdfast_events (stream_key, sequence, event_type, data, append_key, "timestamp")
SELECT
    r.stream_key, COALESCE(s.last_sequence, 0) + r.place + 1, r.event_type, r.data, r.append_key,
    MAX({now_iso}, COALESCE(s.last_timestamp, ''))
FROM {rows} AS r LEFT JOIN @holdfast_event_streams AS s ON s.stream_key = r.stream_key
RETURNING append_key, sequence, "timestamp";
