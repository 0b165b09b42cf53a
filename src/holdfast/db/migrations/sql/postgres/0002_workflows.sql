-- Durable runs, their recorded operations, the executors that own them, and the versions of the application.
--
-- Here and in all that follows, text that is in an index is compared byte by byte, whatever the language of the database:
-- to compare words of a language takes longer; a prefix is then a range of the index; and two columns that are joined must
-- be compared in the same way, or an index of one is of no use to the other.
CREATE TABLE @workflow_status (
    workflow_uuid TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    status TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    class_name VARCHAR(255) COLLATE "C",
    config_name VARCHAR(255) COLLATE "C",
    inputs TEXT,
    output TEXT,
    error TEXT,
    serialization TEXT,
    output_serialization TEXT,
    authenticated_user TEXT COLLATE "C",
    assumed_role TEXT COLLATE "C",
    authenticated_roles TEXT,
    executor_id TEXT COLLATE "C",
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    started_at_epoch_ms BIGINT,
    completed_at BIGINT,
    application_version TEXT COLLATE "C",
    application_id TEXT COLLATE "C",
    parent_workflow_id TEXT COLLATE "C",
    forked_from TEXT COLLATE "C",
    was_forked_from BOOLEAN NOT NULL DEFAULT FALSE,
    owner_xid TEXT,
    incarnation TEXT COLLATE "C",
    executions INTEGER NOT NULL DEFAULT 0,
    creation_key TEXT,
    generation INTEGER NOT NULL DEFAULT 0,
    fingerprint TEXT,
    attributes TEXT,
    queue_name TEXT COLLATE "C",
    deduplication_id TEXT COLLATE "C",
    priority INTEGER NOT NULL DEFAULT 0,
    queue_partition_key TEXT COLLATE "C",
    recovery_attempts BIGINT NOT NULL DEFAULT 0,
    delay_until_epoch_ms BIGINT,
    workflow_timeout_ms BIGINT,
    workflow_deadline_epoch_ms BIGINT,
    CONSTRAINT uq_workflow_status_queue_name_dedup_id UNIQUE (queue_name, deduplication_id)
) WITH (fillfactor = 80);

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
    workflow_uuid TEXT COLLATE "C" NOT NULL,
    function_id INTEGER NOT NULL,
    function_name TEXT NOT NULL,
    identity TEXT COLLATE "C" NOT NULL,
    fingerprint TEXT,
    output TEXT,
    error TEXT,
    child_workflow_id TEXT COLLATE "C",
    serialization TEXT,
    owner_xid TEXT,
    started_at_epoch_ms BIGINT,
    completed_at_epoch_ms BIGINT,
    PRIMARY KEY (workflow_uuid, function_id)
);

-- Only of operations in branches, or about others. Those of the workflow function itself, which nearly all are, one
-- thread or task counts, under a token that one execution has; the key keeps their positions apart.
CREATE UNIQUE INDEX uq_operation_outputs_identity ON @operation_outputs (workflow_uuid, identity)
    WHERE identity LIKE '%.%';

-- Deleting a run deletes what is recorded of it. A foreign key would do the same, but would look the run up once more
-- for every record, which costs as much as the insert itself; the guard of a record has found the run already, and
-- holds its row until commit.
CREATE FUNCTION @delete_run_records() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
    EXECUTE format(
        'DELETE FROM %I.operation_outputs AS o USING gone WHERE o.workflow_uuid = gone.workflow_uuid', TG_TABLE_SCHEMA
    );
    RETURN NULL;
END
$body$;

CREATE TRIGGER delete_run_records AFTER DELETE ON @workflow_status
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION @delete_run_records();

CREATE TABLE @executors (
    incarnation TEXT COLLATE "C" NOT NULL PRIMARY KEY,
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
    version_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    version_name TEXT COLLATE "C" NOT NULL,
    version_timestamp BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    CONSTRAINT uq_application_versions_name UNIQUE (version_name)
);
