-- SQLite has one writer: a transaction that writes needs no lock of a row.

-- fragment: whole_number
INTEGER

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

-- fragment: planned

-- fragment: locked

-- fragment: skip_locked

-- fragment: next
-- The first of a sort that is wanted.
SELECT d.rowid FROM @holdfast_dlq AS d INDEXED BY idx_holdfast_dlq_all_three
WHERE d.domain = s.domain AND d.failure_type = s.failure_type AND d.status = s.status {wanted}

-- name: dlq_walked
-- only: sqlite
-- As dlq_listed, of a domain or a failure type: an index by either would be a page more for each letter. The counts tell
-- which sorts there are. Of each the first letter is looked up, and of that of which one is taken, the one that follows.
-- The + has it found by its id, too: between two columns SQLite goes by the time alone.
WITH RECURSIVE walk(domain, failure_type, status, created_at, id, place) AS (
    SELECT s.domain, s.failure_type, s.status, f.created_at, f.id, f.rowid
    FROM @holdfast_dlq_counts AS s CROSS JOIN @holdfast_dlq AS f
    WHERE s.number > 0
      [[ AND s.status = :status ]] [[ AND s.domain = :domain ]] [[ AND s.failure_type = :failure_type ]]
      AND f.rowid = ({next} {beyond} {ordered} LIMIT 1)
    UNION ALL
    SELECT s.domain, s.failure_type, s.status, f.created_at, f.id, f.rowid
    FROM walk AS s CROSS JOIN @holdfast_dlq AS f
    WHERE f.rowid = (
        {next}
        [[ newest? AND (d.created_at, d.id) < (+s.created_at, +s.id) ]]
        [[ oldest? AND (d.created_at, d.id) > (+s.created_at, +s.id) ]]
        {ordered} LIMIT 1
    )
    ORDER BY 4 [[ newest? DESC ]], 5 [[ newest? DESC ]]
    LIMIT :limit OFFSET :offset
)
SELECT {columns} [[ whole? , {contents} ]] [[ lock? , {now_iso} AS now_iso ]]
FROM walk AS m JOIN @holdfast_dlq AS d ON d.rowid = m.place
ORDER BY m.created_at [[ newest? DESC ]], m.id [[ newest? DESC ]];
