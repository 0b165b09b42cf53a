-- The event log, with the last number of each of its streams; and what became of executions.

-- The first event of an append holds its key, the others of it none. The index that finds a stream also finds an
-- append by its key, and holds off one that comes twice.
CREATE TABLE IF NOT EXISTS @holdfast_events (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    stream_key VARCHAR(512) NOT NULL,
    sequence BIGINT NOT NULL,
    event_type VARCHAR(512) NOT NULL,
    data LONGTEXT NOT NULL,
    "timestamp" VARCHAR(40) NOT NULL,
    append_key VARCHAR(64),
    CONSTRAINT uq_holdfast_events_sequence UNIQUE (stream_key, sequence),
    UNIQUE INDEX idx_holdfast_events_stream (stream_key, append_key),
    INDEX idx_holdfast_events_timestamp ("timestamp")
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {key_collation};

-- What outlives the events of a stream: its last number, and the time of its last event, which the next one's is not
-- before.
CREATE TABLE IF NOT EXISTS @holdfast_event_streams (
    stream_key VARCHAR(512) NOT NULL PRIMARY KEY,
    last_sequence BIGINT NOT NULL,
    last_timestamp VARCHAR(40) NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {key_collation};

-- Newest first is by position: the order in which they were recorded.
CREATE TABLE IF NOT EXISTS @holdfast_executions (
    run_id VARCHAR(512) NOT NULL PRIMARY KEY,
    workflow_id VARCHAR(512),
    status VARCHAR(40) NOT NULL DEFAULT 'pending',
    parameters LONGTEXT,
    result LONGTEXT,
    error LONGTEXT,
    started_at VARCHAR(40),
    completed_at VARCHAR(40),
    worker_id VARCHAR(512),
    metadata_json LONGTEXT,
    "position" BIGINT NOT NULL AUTO_INCREMENT,
    start_key VARCHAR(64),
    end_key VARCHAR(64),
    CONSTRAINT uq_holdfast_executions_position UNIQUE ("position"),
    INDEX idx_executions_status (status, "position"),
    INDEX idx_executions_workflow (workflow_id, "position"),
    INDEX idx_executions_started (started_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {key_collation};
