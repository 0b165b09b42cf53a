-- Schedules: what fires when. next_due_epoch_ms is the slot that comes next, and empty where none comes any more: a poll
-- finds what is due by its index. 0 says that it is still to be worked out: so whoever writes the columns that he knows,
-- or sets a schedule that was paused ACTIVE, need not know of it. last_run_id is the run of the last slot, for the overlap
-- policy; passes says how many of (scheduled_at, context) the workflow is given.
CREATE TABLE @workflow_schedules (
    schedule_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    schedule_name TEXT COLLATE "C" NOT NULL,
    workflow_name TEXT NOT NULL,
    workflow_class_name TEXT,
    schedule TEXT NOT NULL,
    status TEXT COLLATE "C" NOT NULL DEFAULT 'ACTIVE',
    context TEXT NOT NULL,
    last_fired_at TEXT,
    automatic_backfill BOOLEAN NOT NULL DEFAULT FALSE,
    cron_timezone TEXT,
    queue_name TEXT,
    context_serialization TEXT,
    passes INTEGER NOT NULL DEFAULT 2,
    jitter_ms BIGINT NOT NULL DEFAULT 0,
    overlap TEXT NOT NULL DEFAULT 'allow',
    version BIGINT NOT NULL DEFAULT 0,
    next_due_epoch_ms BIGINT DEFAULT 0,
    last_run_id TEXT,
    created_at BIGINT NOT NULL DEFAULT 0,
    updated_at BIGINT NOT NULL DEFAULT 0,
    CONSTRAINT uq_workflow_schedules_name UNIQUE (schedule_name)
);
CREATE INDEX idx_workflow_schedules_due ON @workflow_schedules (next_due_epoch_ms)
    WHERE status = 'ACTIVE' AND next_due_epoch_ms IS NOT NULL;
-- Which workflows an application version has: a slot is for the latest version that has its workflow, so that another
-- application in the same database is none of its business.
CREATE TABLE @application_workflows (
    workflow_name TEXT COLLATE "C" NOT NULL,
    version_name TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (workflow_name, version_name)
);
