-- PostgreSQL writes records and counts in one statement, and so in one round trip.

-- fragment: whole_number
bigint

-- fragment: read_iso
-- Once for all rows: else it is written again for each, and three times.
(SELECT {now_iso})

-- fragment: slot
-- As many connections count without waiting for each other.
(pg_backend_pid() % 8)

-- fragment: by_key
-- Every write finds its records by their key: what PostgreSQL believes of a table it has not looked at yet must not lead
-- it to gather all of it. Planned for the values there are, since some are rare; not compiled, since that takes longer
-- than any of these.
set_config('plan_cache_mode', 'force_custom_plan', TRUE), set_config('jit', 'off', TRUE),
set_config('enable_seqscan', 'off', TRUE), set_config('enable_bitmapscan', 'off', TRUE),
set_config('enable_hashjoin', 'off', TRUE), set_config('enable_mergejoin', 'off', TRUE)

-- fragment: planned
-- Every listing follows an index, which is in its order.
SELECT {by_key}, set_config('enable_sort', 'off', TRUE);

-- name: dlq_planned
-- only: postgres
-- For a transaction that begins with the records of some ids. They are sorted: else they would be met in their order by
-- going through the whole table.
SELECT {by_key};

-- fragment: locked
FOR UPDATE OF d

-- fragment: skip_locked
-- Two who look for the same share the work, and wait for nobody.
FOR UPDATE OF d SKIP LOCKED

-- name: dlq_add
WITH added AS (
    {letters}
    RETURNING id, created_at, domain, failure_type, status
), counted AS (
    INSERT INTO @holdfast_dlq_counts AS c (domain, failure_type, status, slot, number)
    SELECT a.domain, a.failure_type, a.status, {slot}, COUNT(*) FROM added AS a
    GROUP BY a.domain, a.failure_type, a.status ORDER BY 1, 2, 3
    ON CONFLICT (domain, failure_type, status, slot) DO UPDATE SET number = c.number + excluded.number
)
SELECT a.id, a.created_at FROM added AS a;

-- name: dlq_put
WITH changed AS (
    UPDATE @holdfast_dlq AS d
    SET status = r.status, error_message = COALESCE(r.error_message, d.error_message), retry_count = r.retry_count,
        last_retry_at = r.last_retry_at, metadata = r.metadata, resolved_at = r.resolved_at,
        resolved_by_id = r.resolved_by_id, resolution_type = r.resolution_type,
        resolution_note = r.resolution_note, recommended_action = r.recommended_action, updated_at = r.updated_at,
        next_retry_at = r.next_retry_at, replay_token = r.replay_token, replay_beat_at = r.replay_beat_at,
        version = r.new_version, change_key = r.change_key
    FROM {rows} AS r
    WHERE d.id = r.id AND d.version = r.version
    RETURNING d.id, d.domain, d.failure_type, r.old_status, d.status
), moved AS (
    SELECT domain, failure_type, old_status AS status, -1 AS number FROM changed
    UNION ALL SELECT domain, failure_type, status, 1 FROM changed
), counted AS (
    INSERT INTO @holdfast_dlq_counts AS c (domain, failure_type, status, slot, number)
    SELECT m.domain, m.failure_type, m.status, {slot}, SUM(m.number) FROM moved AS m
    GROUP BY m.domain, m.failure_type, m.status HAVING SUM(m.number) <> 0 ORDER BY 1, 2, 3
    ON CONFLICT (domain, failure_type, status, slot) DO UPDATE SET number = c.number + excluded.number
)
SELECT changed.id FROM changed;

-- name: dlq_delete
WITH deleted AS (
    DELETE FROM @holdfast_dlq AS d USING {rows} AS r
    WHERE d.id = r.id AND d.version = r.version
    RETURNING d.id, d.domain, d.failure_type, d.status
), counted AS (
    INSERT INTO @holdfast_dlq_counts AS c (domain, failure_type, status, slot, number)
    SELECT g.domain, g.failure_type, g.status, {slot}, -COUNT(*) FROM deleted AS g
    GROUP BY g.domain, g.failure_type, g.status ORDER BY 1, 2, 3
    ON CONFLICT (domain, failure_type, status, slot) DO UPDATE SET number = c.number + excluded.number
)
SELECT deleted.id FROM deleted;
