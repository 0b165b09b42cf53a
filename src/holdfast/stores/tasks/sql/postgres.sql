-- fragment: read_ms
-- Once for all rows: else these are reckoned again for each.
(SELECT {now_ms})

-- fragment: read_seconds
(SELECT {now_ms} / 1000.0)

-- fragment: hold_free
FOR UPDATE SKIP LOCKED

-- fragment: by_ready

-- fragment: by_due

-- fragment: by_due_t

-- name: task_table_create
CREATE TABLE IF NOT EXISTS {own_table} (LIKE @holdfast_task_queue INCLUDING ALL);

-- fragment: paired
-- Each with a slot for it, as long as there are any. A join would go through all slots for every task.
SELECT
    f.*,
    CASE WHEN f.spent = 0 THEN (SELECT array_agg(r.token ORDER BY r.n) FROM {rows} AS r)[f.place] END AS slot,
    CASE WHEN f.spent = 0 THEN (SELECT array_agg(r.worker_id ORDER BY r.n) FROM {rows} AS r)[f.place] END AS worker
FROM ({found}) AS f
