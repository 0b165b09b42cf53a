-- name: events_append
-- only: postgres
-- rows: stream_key text, back bigint, event_type text, data text, append_key text
-- A whole batch of appends in one statement, which needs no transaction around it. An event lies so many places
-- back from the last one of its stream in this batch.
WITH raised AS (
    INSERT INTO @holdfast_event_streams AS s (stream_key, last_sequence, last_timestamp)
    SELECT r.stream_key, count(*), {now_iso} FROM {rows} AS r
    GROUP BY r.stream_key
    ORDER BY r.stream_key
    ON CONFLICT (stream_key) DO UPDATE SET
        last_sequence = s.last_sequence + excluded.last_sequence,
        last_timestamp = greatest(s.last_timestamp, excluded.last_timestamp)
    RETURNING stream_key, last_sequence, last_timestamp
), written AS (
    INSERT INTO @holdfast_events (stream_key, sequence, event_type, data, append_key, "timestamp")
    SELECT r.stream_key, a.last_sequence - r.back, r.event_type, r.data, r.append_key, a.last_timestamp
    FROM {rows} AS r JOIN raised AS a ON a.stream_key = r.stream_key
    ORDER BY r.n
)
SELECT stream_key, last_sequence, last_timestamp FROM raised;
