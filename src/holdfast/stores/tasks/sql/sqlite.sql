-- One writer is lock enough here. The index of a claim is said by name: without statistics another might be taken.

-- fragment: hold_free

-- fragment: by_ready
INDEXED BY {ready_index}

-- fragment: by_due
INDEXED BY {due_index}

-- fragment: by_due_t
INDEXED BY {due_index}

-- name: task_table_create
CREATE TABLE IF NOT EXISTS {tasks} (
    sequence INTEGER NOT NULL PRIMARY KEY,
    task_id TEXT NOT NULL,
    queue_name TEXT NOT NULL DEFAULT 'default',
    payload TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'pending',
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    max_attempts INTEGER NOT NULL DEFAULT 3,
    visibility_timeout INTEGER NOT NULL DEFAULT 300,
    worker_id TEXT NOT NULL DEFAULT '',
    error TEXT NOT NULL DEFAULT '',
    priority INTEGER NOT NULL DEFAULT 0,
    due_at_ms BIGINT,
    token TEXT,
    creation_key TEXT,
    UNIQUE (task_id)
);
CREATE INDEX IF NOT EXISTS {ready_index} ON {tasks} (queue_name, priority, sequence)
    WHERE status = 'pending' AND due_at_ms IS NULL;
CREATE INDEX IF NOT EXISTS {due_index} ON {tasks} (queue_name, due_at_ms) WHERE due_at_ms IS NOT NULL;
CREATE INDEX IF NOT EXISTS {ended_index} ON {tasks} (status, updated_at)
    WHERE status <> 'pending' AND status <> 'processing';
