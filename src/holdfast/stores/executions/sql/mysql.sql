-- MariaDB/MySQL writes with one statement, which is judged by how many rows it wrote or found.

-- name: executions_start
-- A run id that comes in between the look and the insert is a conflict, and the next look sees it.
{started} LEFT JOIN @holdfast_executions AS e ON e.run_id = r.run_id WHERE e.run_id IS NULL ORDER BY r.n;

-- name: executions_end
UPDATE {rows} AS r STRAIGHT_JOIN @holdfast_executions AS e FORCE INDEX (PRIMARY) ON e.run_id = r.run_id
SET e.status = r.outcome, e.result = r.outcome_result, e.error = r.outcome_error, e.completed_at = {now_iso},
    e.end_key = r.end_key
WHERE e.status = 'pending';
