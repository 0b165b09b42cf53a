-- name: thread_put
-- rows: part int, thread_id text, checkpoint_ns text, name text, other text, run_id text, format text, data bytes
-- rows: metadata text, large text
-- One statement, so that a lone checkpoint needs one round trip.
WITH larger AS (
    INSERT INTO @holdfast_thread_values (thread_id, checkpoint_ns, channel, version, format, data)
    SELECT r.thread_id, r.checkpoint_ns, r.name, r.other, r.format, r.data FROM {rows} AS r WHERE r.part = 1
    ON CONFLICT DO NOTHING
)
INSERT INTO @holdfast_thread_checkpoints (
    thread_id, checkpoint_ns, checkpoint_id, parent_id, run_id, format, data, metadata, large
)
SELECT r.thread_id, r.checkpoint_ns, r.name, r.other, r.run_id, r.format, r.data, r.metadata, r.large
FROM {rows} AS r WHERE r.part = 0
ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id) DO UPDATE
SET parent_id = excluded.parent_id, run_id = excluded.run_id, format = excluded.format, data = excluded.data,
    metadata = excluded.metadata, large = excluded.large;

-- fragment: large_channel
j.item ->> 0

-- fragment: large_version
j.item ->> 1

-- fragment: large_items
CROSS JOIN LATERAL json_array_elements(CAST(p.large AS json)) AS j(item)
