-- fragment: hold_free
FOR UPDATE SKIP LOCKED

-- fragment: by_ready

-- fragment: by_due

-- fragment: by_due_t

-- name: task_table_create
CREATE TABLE IF NOT EXISTS {own_table} (LIKE @holdfast_task_queue INCLUDING ALL);
