-- What became of executions. PostgreSQL and SQLite share this text; MariaDB/MySQL has its own under the same names where
-- it must. {position} is the place of a row in the order in which they were recorded.
--
-- A write carries a key of its own that is stored with it: start_key, end_key. By it a lost reply is asked for.

-- fragment: position
"position"

-- name: executions_start
-- rows: run_id text, workflow_id text, parameters text, worker_id text, metadata text, start_key text
-- none -> pending. A row whose run id is taken is left out.
{started} WHERE true ORDER BY r.n ON CONFLICT (run_id) DO NOTHING;

-- fragment: started
INSERT INTO @holdfast_executions (
    run_id, workflow_id, status, parameters, started_at, worker_id, metadata_json, start_key
)
SELECT r.run_id, r.workflow_id, 'pending', r.parameters, {now_iso}, r.worker_id, r.metadata, r.start_key
FROM {rows} AS r

-- name: executions_end
-- rows: run_id text, outcome text, outcome_result text, outcome_error text, end_key text
-- pending -> completed / failed. A row that has ended, or is not there, is left out. IS TRUE keeps databases from going by
-- the index of the status.
UPDATE @holdfast_executions AS e
SET status = r.outcome, result = r.outcome_result, error = r.outcome_error, completed_at = {now_iso},
    end_key = r.end_key
FROM {rows} AS r
WHERE e.run_id = r.run_id AND (e.status = 'pending') IS TRUE;

-- name: execution_end
-- One row of executions_end. An update that joins takes SQLite a third longer, and MariaDB/MySQL twice as long.
UPDATE @holdfast_executions
SET status = :outcome, result = :outcome_result, error = :outcome_error, completed_at = {now_iso}, end_key = :end_key
WHERE run_id = :run_id AND (status = 'pending') IS TRUE;

-- name: executions_look
-- rows: run_id text
-- Whose they are, for a write that was left out or whose outcome is unknown.
SELECT e.run_id, e.status, e.start_key, e.end_key
FROM {rows} AS r JOIN @holdfast_executions AS e ON e.run_id = r.run_id;

-- name: execution_get
SELECT {whole} FROM @holdfast_executions AS e WHERE e.run_id = :run_id;

-- fragment: whole
e.run_id, e.workflow_id, e.status, e.parameters, e.result, e.error, e.started_at, e.completed_at, e.worker_id,
e.metadata_json

-- fragment: behind
[[ AND e.{position} < (SELECT last.{position} FROM @holdfast_executions AS last WHERE last.run_id = :after) ]]

-- name: executions_list
-- Of a status, of a workflow, or of both: newest first, those behind the run named.
SELECT {whole} FROM @holdfast_executions AS e
WHERE true [[ AND e.status = :status ]] [[ AND e.workflow_id = :workflow_id ]] {behind}
ORDER BY e.{position} DESC LIMIT :most;

-- name: executions_list_all
-- Newest first, those behind the run named.
SELECT {whole} FROM @holdfast_executions AS e WHERE true {behind} ORDER BY e.{position} DESC LIMIT :most;
