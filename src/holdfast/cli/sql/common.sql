-- What `holdfast doctor` asks of a database. It only reads.

-- name: doctor_clock
SELECT {now_ms} AS now_ms;

-- name: doctor_waiting
-- Runs that nobody has claimed for a while, by what an executor must have to claim them.
SELECT
    w.name, w.application_version, w.queue_name, count(*) AS runs, min(w.updated_at) AS waiting_since
FROM @workflow_status AS w
WHERE w.status = 'ENQUEUED' AND w.updated_at < {now_ms} - :patience_ms
GROUP BY w.name, w.application_version, w.queue_name
ORDER BY min(w.updated_at)
LIMIT :most;
