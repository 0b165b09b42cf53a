-- fragment: few
-- PostgreSQL takes the rows of a batch for 10 or 100, and would walk through all keys of a table that was small when the
-- plan was made, long after it has grown. Of a range it believes that it leaves one row: each is then found by its key.
AND r.n BETWEEN 0 AND 2147483647

-- fragment: hold_free
FOR UPDATE SKIP LOCKED

-- fragment: by_ready

-- fragment: by_due

-- fragment: by_due_t

-- name: task_table_create
CREATE TABLE IF NOT EXISTS {own_table} (LIKE @holdfast_task_queue INCLUDING ALL);
