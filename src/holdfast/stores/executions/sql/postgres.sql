-- name: executions_start_new
-- only: postgres
-- rows: run_id text, workflow_id text, parameters text, worker_id text, metadata text, start_key text
-- As executions_start, where nobody is believed to be there: the statement fails if somebody is.
{started} ORDER BY r.n;

-- name: executions_list_all
-- The newest of each status, and of those the newest. Which statuses there are is read off their index, too: one step for
-- each, and nothing that somebody else has written stays hidden. What PostgreSQL believes of a table it has not looked at
-- yet must not lead it to gather all of a status and sort it.
SELECT
    set_config('enable_seqscan', 'off', TRUE), set_config('enable_bitmapscan', 'off', TRUE),
    set_config('enable_sort', 'off', TRUE);
WITH RECURSIVE statuses(status) AS (
    SELECT MIN(e.status) FROM @holdfast_executions AS e
    UNION ALL
    SELECT (SELECT MIN(e.status) FROM @holdfast_executions AS e WHERE e.status > s.status)
    FROM statuses AS s WHERE s.status IS NOT NULL
)
SELECT {whole}
FROM statuses AS s CROSS JOIN LATERAL (
    SELECT e.* FROM @holdfast_executions AS e WHERE e.status = s.status {behind}
    ORDER BY e.{position} DESC LIMIT :most
) AS e
ORDER BY e.{position} DESC LIMIT :most;
