-- Tasks and locks.
--
-- due_at_ms is when something is to become of a task by itself: one that is pending may be taken from then on, the lease
-- of one that is processing is over, the dead letter of one that is dead_lettered is still owed. It is NULL for a
-- task that is ready to be taken and for one that has ended. token is that of the last claim, and stays behind.
CREATE TABLE @holdfast_task_queue (
    task_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    queue_name TEXT COLLATE "C" NOT NULL DEFAULT 'default',
    payload TEXT NOT NULL,
    status TEXT COLLATE "C" NOT NULL DEFAULT 'pending',
    created_at DOUBLE PRECISION NOT NULL,
    updated_at DOUBLE PRECISION NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    max_attempts INTEGER NOT NULL DEFAULT 3,
    visibility_timeout INTEGER NOT NULL DEFAULT 300,
    worker_id TEXT NOT NULL DEFAULT '',
    error TEXT NOT NULL DEFAULT '',
    priority INTEGER NOT NULL DEFAULT 0,
    due_at_ms BIGINT,
    token TEXT,
    creation_key TEXT,
    sequence BIGINT GENERATED ALWAYS AS IDENTITY
);

-- A claim takes what is ready in its order, and looks after what is due; neither reads a task of another queue.
CREATE INDEX idx_holdfast_task_queue_ready ON @holdfast_task_queue (queue_name, priority, sequence)
    WHERE status = 'pending' AND due_at_ms IS NULL;
CREATE INDEX idx_holdfast_task_queue_due ON @holdfast_task_queue (queue_name, due_at_ms) WHERE due_at_ms IS NOT NULL;
CREATE INDEX idx_holdfast_task_queue_ended ON @holdfast_task_queue (status, updated_at)
    WHERE status <> 'pending' AND status <> 'processing';

-- A lock that nobody holds keeps its row: its next holder's token must be greater than every one before.
CREATE TABLE @holdfast_locks (
    lock_key TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    owner TEXT,
    token BIGINT NOT NULL,
    claim_key TEXT NOT NULL,
    acquired_at_ms BIGINT NOT NULL,
    expires_at_ms BIGINT NOT NULL
);
