-- Finding and deleting ended runs. The walk reads and locks nothing; the delete looks again at all that can have
-- changed since, and takes only the runs that are as they were.
--
-- A run is needed while its parent lives, or another run that has it in its record as a child. A run lives if its status
-- is none of the ended ones. Said that way PostgreSQL cannot walk the partial indexes on PENDING, ENQUEUED and DELAYED to
-- find out.

-- fragment: times_named
-- How many records of runs that have not ended name the run as a child: such a run, a fork perhaps, may ask for its
-- result. Counted, and with the status looked up a record, so that PostgreSQL takes the index of children and no scan that
-- it expects to end soon.
(SELECT count(*) FROM @operation_outputs AS o
 WHERE o.child_workflow_id = w.workflow_uuid
   AND (SELECT u.status FROM @workflow_status AS u WHERE u.workflow_uuid = o.workflow_uuid)
       NOT IN ('SUCCESS', 'ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED'))

-- fragment: letters
-- What has texts compared letter by letter, as Python does: PostgreSQL would follow the language of the database.

-- name: retention_clock
SELECT {now_ms} AS now_ms;

-- name: retention_boundary
-- The oldest run that is kept, when so many of the newest are. Runs of one millisecond are ordered by id.
SELECT w.created_at, w.workflow_uuid FROM @workflow_status AS w
WHERE {wanted_status} AND (:any_name = 1 OR {wanted_name})
ORDER BY w.created_at DESC, w.workflow_uuid {letters} DESC
LIMIT 1 OFFSET :skipped;

-- name: retention_stretch
-- Where the next :most runs by creation end. Said without an upper bound, so that PostgreSQL follows the index also on
-- a table it has not analysed.
SELECT w.created_at FROM @workflow_status AS w
WHERE w.created_at >= :from_ms
ORDER BY w.created_at
LIMIT 1 OFFSET :most;

-- name: retention_walk
-- What may fit of the runs created within a stretch of time. So a statement takes no longer on a large table where
-- nothing fits than on a small one.
SELECT
    w.workflow_uuid, w.status, w.name, w.created_at, COALESCE(w.completed_at, w.updated_at) AS ended_at,
    CASE WHEN EXISTS (
        SELECT 1 FROM @workflow_status AS p
        WHERE p.workflow_uuid = w.parent_workflow_id
          AND p.status NOT IN ('SUCCESS', 'ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED')
    ) OR {times_named} > 0 THEN 1 ELSE 0 END AS needed
FROM @workflow_status AS w
WHERE w.created_at >= :from_ms AND w.created_at < :to_ms AND COALESCE(w.completed_at, w.updated_at) <= :cutoff_ms
  AND {wanted_status} AND (:any_name = 1 OR {wanted_name})
ORDER BY w.created_at;

-- name: retention_delete
-- rows: id text, status text
-- ended, nobody waiting -> none. What is recorded of a run goes with it. A run that has been resumed or rewound since
-- has another status, or ended later; one that somebody holds at this moment is left for the next time.
DELETE FROM @workflow_status
WHERE workflow_uuid IN (
    SELECT w.workflow_uuid FROM {rows} AS r JOIN @workflow_status AS w ON w.workflow_uuid = r.id AND w.status = r.status
    WHERE COALESCE(w.completed_at, w.updated_at) <= :cutoff_ms
      AND NOT EXISTS (
          SELECT 1 FROM @workflow_status AS p
          WHERE p.workflow_uuid = w.parent_workflow_id
            AND p.status NOT IN ('SUCCESS', 'ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED')
      )
      AND {times_named} = 0
);

-- name: retention_there
-- rows: id text
-- Which runs are there, when it is not known whether a delete was carried out.
SELECT w.workflow_uuid FROM {rows} AS r JOIN @workflow_status AS w ON w.workflow_uuid = r.id;
