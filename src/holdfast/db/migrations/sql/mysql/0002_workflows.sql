-- Durable runs, their recorded operations, the executors that own them, and the versions of the application.
CREATE TABLE IF NOT EXISTS @workflow_status (
    workflow_uuid VARCHAR(255) NOT NULL PRIMARY KEY,
    status VARCHAR(40) NOT NULL,
    name VARCHAR(255) NOT NULL,
    class_name VARCHAR(255),
    config_name VARCHAR(255),
    inputs LONGTEXT,
    output LONGTEXT,
    error LONGTEXT,
    serialization VARCHAR(255),
    output_serialization VARCHAR(255),
    authenticated_user VARCHAR(255),
    assumed_role VARCHAR(255),
    authenticated_roles LONGTEXT,
    executor_id VARCHAR(255),
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    started_at_epoch_ms BIGINT,
    completed_at BIGINT,
    application_version VARCHAR(255),
    application_id VARCHAR(255),
    parent_workflow_id VARCHAR(255),
    forked_from VARCHAR(255),
    was_forked_from BOOLEAN NOT NULL DEFAULT FALSE,
    owner_xid VARCHAR(320),
    incarnation VARCHAR(64),
    executions INTEGER NOT NULL DEFAULT 0,
    creation_key VARCHAR(320),
    generation INTEGER NOT NULL DEFAULT 0,
    fingerprint VARCHAR(64),
    attributes LONGTEXT,
    queue_name VARCHAR(255),
    deduplication_id VARCHAR(255),
    priority INTEGER NOT NULL DEFAULT 0,
    queue_partition_key VARCHAR(255),
    recovery_attempts BIGINT NOT NULL DEFAULT 0,
    delay_until_epoch_ms BIGINT,
    workflow_timeout_ms BIGINT,
    workflow_deadline_epoch_ms BIGINT,
    CONSTRAINT uq_workflow_status_queue_name_dedup_id UNIQUE (queue_name, deduplication_id),
    INDEX workflow_status_created_at_index (created_at),
    INDEX idx_workflow_status_owner (incarnation, status),
    INDEX idx_workflow_status_queue (status, queue_name(100), priority, created_at),
    INDEX idx_workflow_status_delayed (status, delay_until_epoch_ms),
    INDEX idx_workflow_status_forked_from (forked_from),
    INDEX idx_workflow_status_parent_workflow_id (parent_workflow_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {key_collation};

CREATE TABLE IF NOT EXISTS @operation_outputs (
    workflow_uuid VARCHAR(255) NOT NULL,
    function_id INTEGER NOT NULL,
    function_name VARCHAR(255) NOT NULL,
    identity VARCHAR(255) NOT NULL,
    fingerprint VARCHAR(64),
    output LONGTEXT,
    error LONGTEXT,
    child_workflow_id VARCHAR(255),
    serialization VARCHAR(255),
    owner_xid VARCHAR(320),
    started_at_epoch_ms BIGINT,
    completed_at_epoch_ms BIGINT,
    PRIMARY KEY (workflow_uuid, function_id),
    CONSTRAINT uq_operation_outputs_identity UNIQUE (workflow_uuid, identity),
    CONSTRAINT fk_operation_outputs_run FOREIGN KEY (workflow_uuid)
        REFERENCES @workflow_status (workflow_uuid) ON DELETE CASCADE
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {key_collation};

CREATE TABLE IF NOT EXISTS @executors (
    incarnation VARCHAR(64) NOT NULL PRIMARY KEY,
    executor_id VARCHAR(255) NOT NULL,
    hostname VARCHAR(255) NOT NULL,
    pid BIGINT NOT NULL,
    application_version VARCHAR(255),
    queues LONGTEXT NOT NULL,
    beat_seq BIGINT NOT NULL,
    lease_ms BIGINT NOT NULL,
    stalled_since BIGINT,
    started_at BIGINT NOT NULL,
    last_beat_at BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {key_collation};

CREATE TABLE IF NOT EXISTS @application_versions (
    version_id VARCHAR(64) NOT NULL PRIMARY KEY,
    version_name VARCHAR(255) NOT NULL,
    version_timestamp BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    CONSTRAINT uq_application_versions_name UNIQUE (version_name)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {key_collation};
