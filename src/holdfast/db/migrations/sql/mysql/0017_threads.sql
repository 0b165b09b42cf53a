-- Checkpoints of conversation threads: the state by its small values, large values once a version, and pending writes.
CREATE TABLE IF NOT EXISTS @holdfast_thread_checkpoints (
    thread_id VARCHAR(255) NOT NULL,
    checkpoint_ns VARCHAR(255) NOT NULL,
    checkpoint_id VARCHAR(64) NOT NULL,
    parent_id VARCHAR(64),
    run_id VARCHAR(255),
    format VARCHAR(64) NOT NULL,
    metadata LONGTEXT NOT NULL,
    large LONGTEXT NOT NULL,
    data LONGBLOB NOT NULL,
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id),
    INDEX idx_holdfast_thread_checkpoints_id (checkpoint_id),
    INDEX idx_holdfast_thread_checkpoints_run (run_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {key_collation};

CREATE TABLE IF NOT EXISTS @holdfast_thread_values (
    thread_id VARCHAR(255) NOT NULL,
    checkpoint_ns VARCHAR(255) NOT NULL,
    channel VARCHAR(128) NOT NULL,
    version VARCHAR(64) NOT NULL,
    format VARCHAR(64) NOT NULL,
    data LONGBLOB NOT NULL,
    PRIMARY KEY (thread_id, checkpoint_ns, channel, version)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {key_collation};

CREATE TABLE IF NOT EXISTS @holdfast_thread_writes (
    thread_id VARCHAR(255) NOT NULL,
    checkpoint_ns VARCHAR(255) NOT NULL,
    checkpoint_id VARCHAR(64) NOT NULL,
    task_id VARCHAR(64) NOT NULL,
    idx INTEGER NOT NULL,
    channel VARCHAR(255) NOT NULL,
    format VARCHAR(64) NOT NULL,
    data LONGBLOB NOT NULL,
    task_path LONGTEXT NOT NULL,
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {key_collation};
