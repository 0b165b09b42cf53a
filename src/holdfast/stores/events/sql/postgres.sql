-- fragment: raised
INSERT INTO @holdfast_event_streams AS s (stream_key, last_sequence, last_timestamp)
SELECT r.stream_key, count(*), {now_iso} FROM {rows} AS r
GROUP BY r.stream_key
ORDER BY r.stream_key
ON CONFLICT (stream_key) DO UPDATE SET
    last_sequence = s.last_sequence + excluded.last_sequence,
    last_timestamp = greatest(s.last_timestamp, excluded.last_timestamp)
RETURNING stream_key, last_sequence, last_timestamp

-- name: events_append
-- only: postgres
-- rows: stream_key text, back bigint, event_type text, data text, append_key text
-- A whole batch of appends in one statement, which needs no transaction around it. An event lies so many places
-- back from the last one of its stream in this batch.
WITH raised AS (
    {raised}
), written AS (
    INSERT INTO @holdfast_events (stream_key, sequence, event_type, data, append_key, "timestamp")
    SELECT r.stream_key, a.last_sequence - r.back, r.event_type, r.data, r.append_key, a.last_timestamp
    FROM {rows} AS r JOIN raised AS a ON a.stream_key = r.stream_key
    ORDER BY r.n
)
SELECT stream_key, last_sequence, last_timestamp FROM raised;

-- name: events_append_to_many
-- only: postgres
-- rows: stream_key text, back bigint, event_type text, data text, append_key text
-- The same for a batch of many streams. To join, the stream of each event would be looked for among all of them; here
-- streams and events are sorted by their keys, and what was raised is told to the events beside it.
WITH raised AS (
    {raised}
), written AS (
    INSERT INTO @holdfast_events (stream_key, sequence, event_type, data, append_key, "timestamp")
    SELECT e.stream_key, e.last_sequence - e.back, e.event_type, e.data, e.append_key, e.last_timestamp
    FROM (
        SELECT
            b.n, b.stream_key, b.back, b.event_type, b.data, b.append_key,
            max(b.last_sequence) OVER stream AS last_sequence, max(b.last_timestamp) OVER stream AS last_timestamp
        FROM (
            SELECT
                r.n, r.stream_key, r.back, r.event_type, r.data, r.append_key,
                CAST(NULL AS bigint) AS last_sequence, CAST(NULL AS text) AS last_timestamp
            FROM {rows} AS r
            UNION ALL
            SELECT NULL, a.stream_key, NULL, NULL, NULL, NULL, a.last_sequence, a.last_timestamp FROM raised AS a
        ) AS b
        WINDOW stream AS (PARTITION BY b.stream_key)
    ) AS e
    WHERE e.n IS NOT NULL
    ORDER BY e.n
)
SELECT stream_key, last_sequence, last_timestamp FROM raised;
