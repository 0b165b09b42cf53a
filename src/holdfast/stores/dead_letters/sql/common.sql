-- Dead letters. A change reads its records with a lock, decides outside of SQL, and writes each if its version is the one
-- that was read; the counts change in the same transaction, by what was written. Counts come after all other locks, in
-- the order of their key, so that two who count cannot wait for each other in a circle. On SQLite triggers count.

-- fragment: columns
-- What a decision needs. The last message is only stored where it is not the first error.
d.id, d.domain, d.failure_type, d.status, d.workflow_id, d.error_code, COALESCE(d.error_message, d.error) AS error_message,
d.entity_type, d.entity_id, d.user_id, d.metadata, d.retry_count, d.max_retries, d.last_retry_at, d.resolved_at,
d.resolved_by_id, d.resolution_type, d.resolution_note, d.next_action_hint, d.recommended_action, d.created_at,
d.updated_at, d.expires_at, d.next_retry_at, d.retry_delay_ms, d.replay_token, d.replay_beat_at, d.version, d.change_key

-- fragment: contents
d.error, d.payload, d.entity_refs, d.snapshot_data, d.request_data, d.response_data

-- fragment: still
-- What may have changed between being found and being locked.
[[ AND d.retry_count < :retry_below ]]
[[ evictable? AND d.status NOT IN ('replaying', 'reviewing') ]]

-- fragment: wanted
{still}
[[ AND d.status = :status ]]
[[ AND d.domain = :domain ]]
[[ AND d.failure_type = :failure_type ]]
[[ AND d.created_at < :created_before ]]
[[ AND d.created_at >= :created_from ]]
[[ AND d.created_at <= :created_to ]]
[[ resolved_for? AND d.resolved_at < {later_iso} ]]
[[ untouched_for? AND d.status = 'archived' AND d.updated_at < {later_iso} ]]
[[ unheard_for? AND d.replay_beat_at < {later_iso} ]]

-- fragment: read_iso
{now_iso}

-- fragment: letters
-- Of a row that says nothing of a column the usual is meant.
INSERT INTO @holdfast_dlq (
    id, domain, failure_type, status, workflow_id, error, error_message, error_code, payload, entity_type, entity_id,
    entity_refs, user_id, snapshot_data, request_data, response_data, metadata, retry_count, max_retries,
    next_action_hint, recommended_action, expires_at, retry_delay_ms, change_key, created_at, updated_at, next_retry_at
)
SELECT
    r.id, r.domain, r.failure_type, r.status, COALESCE(r.workflow_id, ''), r.error, r.error_message,
    COALESCE(r.error_code, ''), r.payload, r.entity_type, r.entity_id, COALESCE(r.entity_refs, '{}'), r.user_id,
    COALESCE(r.snapshot_data, '{}'), COALESCE(r.request_data, '{}'), COALESCE(r.response_data, '{}'),
    COALESCE(r.metadata, '{}'), COALESCE(r.retry_count, 0), r.max_retries, COALESCE(r.next_action_hint, ''),
    COALESCE(r.recommended_action, ''), r.expires_at, r.retry_delay_ms, COALESCE(r.change_key, r.id),
    {read_iso}, {read_iso},
    CASE WHEN r.retry_delay_ms IS NOT NULL AND r.status = 'pending' THEN {read_iso} END
FROM {rows} AS r

-- fragment: by_index
-- The planner finds the index by itself.
[[ by_created? ]]
[[ by_status? ]]
[[ by_domain_status? ]]
[[ by_type_status? ]]
[[ by_all_three? ]]
[[ by_next_retry? ]]
[[ by_domain_next_retry? ]]
[[ by_expires? ]]
[[ by_resolved? ]]
[[ by_archived? ]]

-- fragment: with_record
JOIN @holdfast_dlq AS d

-- name: dlq_add
-- rows: id text, domain text, failure_type text, status text, workflow_id text, error text, error_message text
-- rows: error_code text, payload text, entity_type text, entity_id text, entity_refs text, user_id bigint
-- rows: snapshot_data text, request_data text, response_data text, metadata text, retry_count int, max_retries int
-- rows: next_action_hint text, recommended_action text, expires_at text, retry_delay_ms bigint, change_key text
{letters} WHERE TRUE
RETURNING id, created_at;

-- name: dlq_added
-- rows: id text
SELECT d.id, d.created_at FROM {rows} AS r JOIN @holdfast_dlq AS d ON d.id = r.id;

-- name: dlq_get
SELECT {columns}, {contents} FROM @holdfast_dlq AS d WHERE d.id = :id;

-- name: dlq_read
-- rows: id text
-- The records of some ids, locked until the end of the transaction.
SELECT {columns}, {contents}, {now_iso} AS now_iso
FROM {rows} AS r JOIN @holdfast_dlq AS d ON d.id = r.id
ORDER BY d.id {locked};

-- name: dlq_read_brief
-- rows: id text
-- As dlq_read, for decisions that need no contents.
SELECT {columns}, {now_iso} AS now_iso
FROM {rows} AS r JOIN @holdfast_dlq AS d ON d.id = r.id
ORDER BY d.id {locked};

-- name: dlq_look
-- rows: id text
SELECT {columns}, {contents} FROM {rows} AS r JOIN @holdfast_dlq AS d ON d.id = r.id;

-- fragment: found
SELECT {columns} [[ whole? , {contents} ]] [[ lock? , {now_iso} AS now_iso ]]
FROM @holdfast_dlq AS d {by_index}
WHERE TRUE {wanted}

-- fragment: some
LIMIT :limit OFFSET :offset [[ lock? {skip_locked} ]]

-- fragment: ordered
ORDER BY d.created_at [[ newest? DESC ]], d.id [[ newest? DESC ]]

-- fragment: beyond
[[ newest? [[ AND d.created_at <= :beyond AND (d.created_at < :beyond OR d.id < :beyond_id) ]] ]]
[[ oldest? [[ AND d.created_at >= :beyond AND (d.created_at > :beyond OR d.id > :beyond_id) ]] ]]

-- name: dlq_listed
{planned}
{found} {beyond} {ordered} {some};

-- fragment: those
SELECT d.id, d.created_at FROM @holdfast_dlq AS d {by_index} WHERE TRUE {wanted} {beyond} AND d.status =

-- fragment: first
{ordered} LIMIT :reach

-- name: dlq_merged
-- As dlq_listed, of a domain or a failure type in any status: the first of each status, and the first of those. In
-- one statement, so that a record that changes its status meanwhile is seen once. Without :nearest, those that others
-- have locked can be passed over.
{planned}
SELECT {columns} [[ whole? , {contents} ]] [[ lock? , {now_iso} AS now_iso ]]
FROM (
    SELECT u.id, u.created_at FROM (
        SELECT * FROM ({those} 'pending' {first}) AS pending
        UNION ALL SELECT * FROM ({those} 'replaying' {first}) AS replaying
        UNION ALL SELECT * FROM ({those} 'reviewing' {first}) AS reviewing
        UNION ALL SELECT * FROM ({those} 'replayed' {first}) AS replayed
        UNION ALL SELECT * FROM ({those} 'requires_review' {first}) AS requires_review
        UNION ALL SELECT * FROM ({those} 'resolved' {first}) AS resolved
        UNION ALL SELECT * FROM ({those} 'rejected' {first}) AS rejected
        UNION ALL SELECT * FROM ({those} 'archived' {first}) AS archived
        UNION ALL SELECT * FROM ({those} 'expired' {first}) AS expired
        UNION ALL SELECT * FROM ({those} 'permanently_failed' {first}) AS permanently_failed
    ) AS u
    [[ ORDER BY u.created_at [[ newest? DESC ]], u.id [[ newest? DESC ]] LIMIT :nearest ]]
) AS m {with_record} ON d.id = m.id
WHERE TRUE {still}
ORDER BY m.created_at [[ newest? DESC ]], m.id [[ newest? DESC ]] {some};

-- name: dlq_due
{planned}
{found} AND d.next_retry_at <= {now_iso}
ORDER BY d.next_retry_at, d.id {some};

-- name: dlq_next_due
-- rows: domain text
-- When the next letter of each domain is due, where there is one.
SELECT
    r.domain, {now_iso} AS now_iso,
    (SELECT MIN(d.next_retry_at) FROM @holdfast_dlq AS d WHERE d.domain = r.domain AND d.next_retry_at IS NOT NULL) AS due
FROM {rows} AS r;

-- name: dlq_expired
{planned}
{found} AND d.expires_at < :expires_before
ORDER BY d.expires_at, d.id {some};

-- name: dlq_old
-- What is old enough to be cleaned away, in the order in which it is found.
{planned}
{found} {some};

-- name: dlq_number
SELECT COUNT(*) AS number FROM @holdfast_dlq AS d WHERE TRUE {wanted};

-- name: dlq_put
-- rows: id text, version bigint, domain text, failure_type text, old_status text, status text, error_message text
-- rows: retry_count int, last_retry_at text, metadata text, resolved_at text, resolved_by_id bigint
-- rows: resolution_type text, resolution_note text, recommended_action text, updated_at text, next_retry_at text
-- rows: replay_token text, replay_beat_at text, new_version bigint, change_key text
-- Writes records if their versions are as they were read. A message that is NULL stays as it is.
UPDATE @holdfast_dlq AS d
SET status = r.status, error_message = COALESCE(r.error_message, d.error_message), retry_count = r.retry_count,
    last_retry_at = r.last_retry_at, metadata = r.metadata, resolved_at = r.resolved_at,
    resolved_by_id = r.resolved_by_id, resolution_type = r.resolution_type, resolution_note = r.resolution_note,
    recommended_action = r.recommended_action, updated_at = r.updated_at, next_retry_at = r.next_retry_at,
    replay_token = r.replay_token, replay_beat_at = r.replay_beat_at, version = r.new_version,
    change_key = r.change_key
FROM {rows} AS r
WHERE d.id = r.id AND d.version = r.version;

-- name: dlq_delete
-- rows: id text, version bigint, domain text, failure_type text, status text
DELETE FROM @holdfast_dlq
WHERE EXISTS (SELECT 1 FROM {rows} AS r WHERE r.id = @holdfast_dlq.id AND r.version = @holdfast_dlq.version);

-- name: dlq_tally
SELECT c.domain, c.failure_type, c.status, CAST(SUM(c.number) AS {whole_number}) AS number
FROM @holdfast_dlq_counts AS c
GROUP BY c.domain, c.failure_type, c.status HAVING SUM(c.number) <> 0;

-- fragment: summary
s.id, s.domain, s.failure_type, s.error_code, s.count, s.first_seen, s.last_seen, s.sample_error_message,
s.sample_context, s.status, s.compressed_at, s.stale_at, s.archived_at

-- fragment: new_summaries
INSERT INTO @holdfast_dlq_compressed (
    id, domain, failure_type, error_code, count, first_seen, last_seen, sample_error_message, sample_context,
    compressed_at, change_key
)
SELECT
    r.id, r.domain, r.failure_type, r.error_code, r.number, r.first_seen, r.last_seen, r.sample_error_message,
    r.sample_context, r.compressed_at, r.change_key
FROM {rows} AS r

-- name: dlq_summaries_add
-- rows: id text, domain text, failure_type text, error_code text, number bigint, first_seen text, last_seen text
-- rows: sample_error_message text, sample_context text, compressed_at text, change_key text
-- A summary that is there is added to; the sample is that of the later record.
{new_summaries} WHERE TRUE
ON CONFLICT (id) DO UPDATE SET
    count = @holdfast_dlq_compressed.count + excluded.count,
    sample_error_message = CASE WHEN excluded.last_seen > @holdfast_dlq_compressed.last_seen
        THEN excluded.sample_error_message ELSE @holdfast_dlq_compressed.sample_error_message END,
    sample_context = CASE WHEN excluded.last_seen > @holdfast_dlq_compressed.last_seen
        THEN excluded.sample_context ELSE @holdfast_dlq_compressed.sample_context END,
    first_seen = CASE WHEN excluded.first_seen < @holdfast_dlq_compressed.first_seen
        THEN excluded.first_seen ELSE @holdfast_dlq_compressed.first_seen END,
    last_seen = CASE WHEN excluded.last_seen > @holdfast_dlq_compressed.last_seen
        THEN excluded.last_seen ELSE @holdfast_dlq_compressed.last_seen END,
    change_key = excluded.change_key;

-- name: dlq_summary_store
INSERT INTO @holdfast_dlq_compressed (
    id, domain, failure_type, error_code, count, first_seen, last_seen, sample_error_message, sample_context, status,
    compressed_at, stale_at, archived_at, change_key
)
VALUES (
    :id, :domain, :failure_type, :error_code, :number, :first_seen, :last_seen, :sample_error_message,
    :sample_context, :status, COALESCE(:compressed_at, {now_iso}), :stale_at, :archived_at, :change_key
)
{unless_there};

-- fragment: unless_there
ON CONFLICT (id) DO NOTHING

-- name: dlq_summary_look
SELECT s.change_key FROM @holdfast_dlq_compressed AS s WHERE s.id = :id;

-- name: dlq_summaries
SELECT {summary} FROM @holdfast_dlq_compressed AS s
WHERE TRUE [[ AND s.domain = :domain ]] [[ AND s.status = :status ]]
ORDER BY s.compressed_at DESC, s.id DESC LIMIT :limit;

-- name: dlq_summary_totals
SELECT s.status, COUNT(*) AS number, CAST(SUM(s.count) AS {whole_number}) AS items
FROM @holdfast_dlq_compressed AS s GROUP BY s.status;

-- name: dlq_summary_move
UPDATE @holdfast_dlq_compressed
SET status = :status, change_key = :change_key [[ stale? , stale_at = {now_iso} ]] [[ archived? , archived_at = {now_iso} ]]
WHERE id = :id AND (status = 'active' [[ archived? OR status = 'stale' ]]);
