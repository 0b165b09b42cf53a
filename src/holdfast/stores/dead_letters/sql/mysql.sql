-- MariaDB/MySQL writes first and then reads what came of it, in the same transaction.
--
-- A write that joins begins with what is wanted (STRAIGHT_JOIN) and finds the records by their key (FORCE INDEX).

-- fragment: whole_number
SIGNED

-- fragment: slot
-- As many connections count without waiting for each other.
(CONNECTION_ID() % 8)

-- fragment: by_index
-- Left to itself, MariaDB sorts a table that it thinks is small, and takes the first index that fits somehow.
[[ by_created? FORCE INDEX (idx_holdfast_dlq_created) ]]
[[ by_status? FORCE INDEX (idx_holdfast_dlq_status) ]]
[[ by_domain_status? FORCE INDEX (idx_holdfast_dlq_domain_status) ]]
[[ by_type_status? FORCE INDEX (idx_holdfast_dlq_type_status) ]]
[[ by_all_three? FORCE INDEX (idx_holdfast_dlq_all_three) ]]
[[ by_next_retry? FORCE INDEX (idx_holdfast_dlq_next_retry) ]]
[[ by_domain_next_retry? FORCE INDEX (idx_holdfast_dlq_domain_next_retry) ]]
[[ by_expires? FORCE INDEX (idx_holdfast_dlq_expires) ]]
[[ by_resolved? FORCE INDEX (idx_holdfast_dlq_resolved) ]]
[[ by_archived? FORCE INDEX (idx_holdfast_dlq_archived) ]]

-- fragment: with_record
STRAIGHT_JOIN @holdfast_dlq AS d FORCE INDEX (PRIMARY)

-- fragment: planned

-- fragment: locked
FOR UPDATE

-- fragment: skip_locked
FOR UPDATE SKIP LOCKED

-- fragment: each_count
-- By their bytes: names that come as parameters have the collation of the connection, where two of them may be one.
GROUP BY CAST(r.domain AS BINARY), CAST(r.failure_type AS BINARY), CAST(r.status AS BINARY)

-- name: dlq_add
{letters};
INSERT INTO @holdfast_dlq_counts (domain, failure_type, status, slot, number)
SELECT g.domain, g.failure_type, g.status, {slot}, g.number
FROM (
    SELECT r.domain, r.failure_type, r.status, COUNT(*) AS number FROM {rows} AS r
    {each_count} ORDER BY 1, 2, 3
) AS g
ON DUPLICATE KEY UPDATE number = @holdfast_dlq_counts.number + VALUES(number);
SELECT d.id, d.created_at FROM {rows} AS r JOIN @holdfast_dlq AS d ON d.id = r.id;

-- name: dlq_read
SELECT {columns}, {contents}, {now_iso} AS now_iso
FROM {rows} AS r STRAIGHT_JOIN @holdfast_dlq AS d FORCE INDEX (PRIMARY) ON d.id = r.id
ORDER BY r.id {locked};

-- name: dlq_read_brief
SELECT {columns}, {now_iso} AS now_iso
FROM {rows} AS r STRAIGHT_JOIN @holdfast_dlq AS d FORCE INDEX (PRIMARY) ON d.id = r.id
ORDER BY r.id {locked};

-- name: dlq_put
INSERT INTO @holdfast_dlq_counts (domain, failure_type, status, slot, number)
SELECT g.domain, g.failure_type, g.status, {slot}, g.number
FROM (
    SELECT r.domain, r.failure_type, r.status, SUM(r.number) AS number
    FROM (
        SELECT b.domain, b.failure_type, b.old_status AS status, -1 AS number FROM {rows} AS b
        UNION ALL SELECT a.domain, a.failure_type, a.status, 1 FROM {rows} AS a
    ) AS r
    {each_count} HAVING SUM(r.number) <> 0 ORDER BY 1, 2, 3
) AS g
ON DUPLICATE KEY UPDATE number = @holdfast_dlq_counts.number + VALUES(number);
UPDATE {rows} AS r STRAIGHT_JOIN @holdfast_dlq AS d FORCE INDEX (PRIMARY)
    ON d.id = r.id AND d.version = r.version
SET d.status = r.status, d.error_message = COALESCE(r.error_message, d.error_message),
    d.retry_count = r.retry_count, d.last_retry_at = r.last_retry_at, d.metadata = r.metadata,
    d.resolved_at = r.resolved_at, d.resolved_by_id = r.resolved_by_id, d.resolution_type = r.resolution_type,
    d.resolution_note = r.resolution_note, d.recommended_action = r.recommended_action,
    d.updated_at = r.updated_at, d.next_retry_at = r.next_retry_at, d.replay_token = r.replay_token,
    d.replay_beat_at = r.replay_beat_at, d.version = r.new_version, d.change_key = r.change_key;

-- name: dlq_delete
INSERT INTO @holdfast_dlq_counts (domain, failure_type, status, slot, number)
SELECT g.domain, g.failure_type, g.status, {slot}, g.number
FROM (
    SELECT r.domain, r.failure_type, r.status, -COUNT(*) AS number FROM {rows} AS r
    {each_count} ORDER BY 1, 2, 3
) AS g
ON DUPLICATE KEY UPDATE number = @holdfast_dlq_counts.number + VALUES(number);
DELETE d FROM {rows} AS r STRAIGHT_JOIN @holdfast_dlq AS d FORCE INDEX (PRIMARY)
    ON d.id = r.id AND d.version = r.version;

-- name: dlq_summaries_add
-- Here an assignment sees those before it: the sample must be chosen before the times are moved.
{new_summaries}
ON DUPLICATE KEY UPDATE
    count = @holdfast_dlq_compressed.count + VALUES(count),
    sample_error_message = CASE WHEN VALUES(last_seen) > @holdfast_dlq_compressed.last_seen
        THEN VALUES(sample_error_message) ELSE @holdfast_dlq_compressed.sample_error_message END,
    sample_context = CASE WHEN VALUES(last_seen) > @holdfast_dlq_compressed.last_seen
        THEN VALUES(sample_context) ELSE @holdfast_dlq_compressed.sample_context END,
    first_seen = LEAST(@holdfast_dlq_compressed.first_seen, VALUES(first_seen)),
    last_seen = GREATEST(@holdfast_dlq_compressed.last_seen, VALUES(last_seen)),
    change_key = VALUES(change_key);

-- fragment: unless_there
ON DUPLICATE KEY UPDATE id = @holdfast_dlq_compressed.id
