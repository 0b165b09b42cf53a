-- Tasks and locks.
--
-- due_at_ms is when something is to become of a task by itself: one that is pending may be taken from then on, the lease
-- of one that is processing is over, the dead letter of one that is dead_lettered is still owed. It is NULL for a
-- task that is ready to be taken and for one that has ended. token is that of the last claim, and stays behind.
--
-- A claim takes what is ready in its order, and looks after what is due; neither reads a task of another queue. There
-- are no partial indexes here.
CREATE TABLE IF NOT EXISTS @holdfast_task_queue (
    task_id VARCHAR(128) NOT NULL PRIMARY KEY,
    queue_name VARCHAR(255) NOT NULL DEFAULT 'default',
    payload LONGTEXT NOT NULL,
    status VARCHAR(20) NOT NULL DEFAULT 'pending',
    created_at DOUBLE NOT NULL,
    updated_at DOUBLE NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    max_attempts INTEGER NOT NULL DEFAULT 3,
    visibility_timeout INTEGER NOT NULL DEFAULT 300,
    worker_id VARCHAR(255) NOT NULL DEFAULT '',
    error LONGTEXT NOT NULL,
    priority INTEGER NOT NULL DEFAULT 0,
    due_at_ms BIGINT,
    token VARCHAR(255),
    creation_key VARCHAR(64),
    sequence BIGINT NOT NULL AUTO_INCREMENT,
    INDEX idx_holdfast_task_queue_sequence (sequence),
    INDEX idx_holdfast_task_queue_ready (queue_name, status, due_at_ms, priority, sequence),
    INDEX idx_holdfast_task_queue_due (queue_name, due_at_ms),
    INDEX idx_holdfast_task_queue_ended (status, updated_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {key_collation};

-- A lock that nobody holds keeps its row: its next holder's token must be greater than every one before.
CREATE TABLE IF NOT EXISTS @holdfast_locks (
    lock_key VARCHAR(512) NOT NULL PRIMARY KEY,
    owner VARCHAR(255),
    token BIGINT NOT NULL,
    claim_key VARCHAR(64) NOT NULL,
    acquired_at_ms BIGINT NOT NULL,
    expires_at_ms BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {key_collation};
