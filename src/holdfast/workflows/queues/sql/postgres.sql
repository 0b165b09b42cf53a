-- There is no way to say which index to use. So the condition is that of the indexes of claims and of no others, and what
-- fits this executor is asked in a form of which the planner expects that nearly all runs meet it: it then follows the
-- index until it has enough, instead of reading and sorting all that waits.

-- fragment: q_waits
'' || q.status = 'ENQUEUED'

-- fragment: w_waits
'' || w.status = 'ENQUEUED'

-- fragment: hold_free_runs
FOR UPDATE OF w SKIP LOCKED

-- fragment: by_delay

-- fragment: by_age

-- fragment: by_partition

-- fragment: by_queue_age

-- fragment: by_queue_priority

-- fragment: by_partition_age

-- fragment: by_partition_priority

-- The claims: ENQUEUED -> PENDING for an executor that has the function and a fitting version. :caps is
-- a JSON object of function names and their caps on recovery attempts, and of the objects whose methods can be run
-- (class/configuration), :versions a JSON array. With :suspects = 0 runs from half their cap on are left for an executor
-- that can try them alone; those over it are taken, to be ended. What others can run and this executor cannot is passed
-- over, and takes nobody's place. Arguments of more than 65,536 bytes are left out: a claim takes many runs, and what
-- they hold together is not known before.

-- fragment: claim
UPDATE @workflow_status AS w
SET status = 'PENDING', owner_xid = :claim || '.' || w.workflow_uuid, incarnation = :incarnation,
    executor_id = CASE WHEN w.recovery_attempts > CAST((SELECT CAST(:caps AS jsonb)) ->> w.name AS bigint)
                       THEN w.executor_id ELSE :executor_id END,
    {begun}
-- An array is made once. A subquery that is joined may be asked again for each row, in a nested loop, and as it passes
-- over what it has locked and changed itself it would find others every time: the limit would be none.
WHERE w.workflow_uuid = ANY (ARRAY(
    SELECT q.workflow_uuid FROM @workflow_status AS q

-- fragment: fitting
AND CASE WHEN jsonb_exists((SELECT CAST(:caps AS jsonb)), q.name)
AND (q.config_name IS NULL OR jsonb_exists((SELECT CAST(:caps AS jsonb)), q.class_name || '/' || q.config_name))
AND (q.application_version IS NULL OR jsonb_exists((SELECT CAST(:versions AS jsonb)), q.application_version))
AND (CAST(:suspects AS bigint) = 1 OR q.recovery_attempts = 0
     OR q.recovery_attempts * 2 < CAST((SELECT CAST(:caps AS jsonb)) ->> q.name AS bigint)
     OR q.recovery_attempts > CAST((SELECT CAST(:caps AS jsonb)) ->> q.name AS bigint))
THEN 1 END IS NOT NULL

-- fragment: claimed
    LIMIT :most
    FOR UPDATE SKIP LOCKED
))
RETURNING {claimed_run}
