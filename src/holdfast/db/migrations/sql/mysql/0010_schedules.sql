-- Schedules: what fires when. next_due_epoch_ms is the slot that comes next, and empty where none comes any more: a poll
-- finds what is due by its index. 0 says that it is still to be worked out: so whoever writes the columns that he knows,
-- or sets a schedule that was paused ACTIVE, need not know of it. last_run_id is the run of the last slot, for the overlap
-- policy; passes says how many of (scheduled_at, context) the workflow is given.
CREATE TABLE IF NOT EXISTS @workflow_schedules (
    schedule_id VARCHAR(255) NOT NULL PRIMARY KEY,
    schedule_name VARCHAR(255) NOT NULL,
    workflow_name VARCHAR(255) NOT NULL,
    workflow_class_name VARCHAR(255),
    schedule VARCHAR(255) NOT NULL,
    status VARCHAR(40) NOT NULL DEFAULT 'ACTIVE',
    context LONGTEXT NOT NULL,
    last_fired_at VARCHAR(40),
    automatic_backfill BOOLEAN NOT NULL DEFAULT FALSE,
    cron_timezone VARCHAR(255),
    queue_name VARCHAR(255),
    context_serialization VARCHAR(255),
    passes INTEGER NOT NULL DEFAULT 2,
    jitter_ms BIGINT NOT NULL DEFAULT 0,
    overlap VARCHAR(40) NOT NULL DEFAULT 'allow',
    version BIGINT NOT NULL DEFAULT 0,
    next_due_epoch_ms BIGINT DEFAULT 0,
    last_run_id VARCHAR(255),
    created_at BIGINT NOT NULL DEFAULT 0,
    updated_at BIGINT NOT NULL DEFAULT 0,
    CONSTRAINT uq_workflow_schedules_name UNIQUE (schedule_name),
    INDEX idx_workflow_schedules_due (status, next_due_epoch_ms)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {key_collation};
-- Which workflows an application version has: a slot is for the latest version that has its workflow, so that another
-- application in the same database is none of its business.
CREATE TABLE IF NOT EXISTS @application_workflows (
    workflow_name VARCHAR(255) NOT NULL,
    version_name VARCHAR(255) NOT NULL,
    PRIMARY KEY (workflow_name, version_name)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {key_collation};
