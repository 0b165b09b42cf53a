-- Durable runs, their recorded operations, the executors that own them, and the versions of the application.
CREATE TABLE @workflow_status (
    workflow_uuid TEXT NOT NULL PRIMARY KEY,
    status TEXT NOT NULL,
    name TEXT NOT NULL,
    class_name VARCHAR(255),
    config_name VARCHAR(255),
    inputs TEXT,
    output TEXT,
    error TEXT,
    serialization TEXT,
    output_serialization TEXT,
    authenticated_user TEXT,
    assumed_role TEXT,
    authenticated_roles TEXT,
    executor_id TEXT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    started_at_epoch_ms BIGINT,
    completed_at BIGINT,
    application_version TEXT,
    application_id TEXT,
    parent_workflow_id TEXT,
    forked_from TEXT,
    was_forked_from BOOLEAN NOT NULL DEFAULT FALSE,
    owner_xid TEXT,
    incarnation TEXT,
    executions INTEGER NOT NULL DEFAULT 0,
    creation_key TEXT,
    generation INTEGER NOT NULL DEFAULT 0,
    fingerprint TEXT,
    attributes TEXT,
    queue_name TEXT,
    deduplication_id TEXT,
    priority INTEGER NOT NULL DEFAULT 0,
    queue_partition_key TEXT,
    recovery_attempts BIGINT NOT NULL DEFAULT 0,
    delay_until_epoch_ms BIGINT,
    workflow_timeout_ms BIGINT,
    workflow_deadline_epoch_ms BIGINT
);

-- Most runs have no deduplication id, and need no place in its index, which every start and every end would write.
CREATE UNIQUE INDEX uq_workflow_status_queue_name_dedup_id ON @workflow_status (queue_name, deduplication_id)
    WHERE deduplication_id IS NOT NULL;
CREATE INDEX workflow_status_created_at_index ON @workflow_status (created_at);
-- What an executor owns: for its own comparison with what it runs, and for the release when it is gone.
CREATE INDEX idx_workflow_status_owner ON @workflow_status (incarnation) WHERE status = 'PENDING';
-- What waits in a queue, in the order in which it is claimed.
CREATE INDEX idx_workflow_status_queue ON @workflow_status (queue_name, priority, created_at) WHERE status = 'ENQUEUED';
CREATE INDEX idx_workflow_status_delayed ON @workflow_status (delay_until_epoch_ms) WHERE status = 'DELAYED';
CREATE INDEX idx_workflow_status_forked_from ON @workflow_status (forked_from) WHERE forked_from IS NOT NULL;
CREATE INDEX idx_workflow_status_parent_workflow_id ON @workflow_status (parent_workflow_id)
    WHERE parent_workflow_id IS NOT NULL;

CREATE TABLE @operation_outputs (
    workflow_uuid TEXT NOT NULL,
    function_id INTEGER NOT NULL,
    function_name TEXT NOT NULL,
    identity TEXT NOT NULL,
    fingerprint TEXT,
    output TEXT,
    error TEXT,
    child_workflow_id TEXT,
    serialization TEXT,
    owner_xid TEXT,
    started_at_epoch_ms BIGINT,
    completed_at_epoch_ms BIGINT,
    PRIMARY KEY (workflow_uuid, function_id),
    CONSTRAINT fk_operation_outputs_run FOREIGN KEY (workflow_uuid)
        REFERENCES @workflow_status (workflow_uuid) ON DELETE CASCADE
);

-- Only of operations in branches, or about others. Those of the workflow function itself, which nearly all are, one
-- thread or task counts, under a token that one execution has; the key keeps their positions apart.
CREATE UNIQUE INDEX uq_operation_outputs_identity ON @operation_outputs (workflow_uuid, identity)
    WHERE identity LIKE '%.%';

CREATE TABLE @executors (
    incarnation TEXT NOT NULL PRIMARY KEY,
    executor_id TEXT NOT NULL,
    hostname TEXT NOT NULL,
    pid BIGINT NOT NULL,
    application_version TEXT,
    queues TEXT NOT NULL,
    beat_seq BIGINT NOT NULL,
    lease_ms BIGINT NOT NULL,
    stalled_since BIGINT,
    started_at BIGINT NOT NULL,
    last_beat_at BIGINT NOT NULL
);

CREATE TABLE @application_versions (
    version_id TEXT NOT NULL PRIMARY KEY,
    version_name TEXT NOT NULL,
    version_timestamp BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    CONSTRAINT uq_application_versions_name UNIQUE (version_name)
);
