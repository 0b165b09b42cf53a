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
