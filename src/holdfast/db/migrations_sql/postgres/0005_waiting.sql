-- Runs that are put away while they wait: what for, besides a moment. A wait is checked by every poll.
ALTER TABLE @workflow_status ADD COLUMN wait_kind TEXT;
CREATE TABLE @workflow_waits (
    workflow_uuid TEXT NOT NULL,
    wait_kind TEXT NOT NULL,
    wait_key TEXT NOT NULL,
    PRIMARY KEY (workflow_uuid, wait_kind, wait_key),
    CONSTRAINT fk_workflow_waits_run FOREIGN KEY (workflow_uuid)
        REFERENCES @workflow_status (workflow_uuid) ON DELETE CASCADE
);
CREATE INDEX idx_workflow_waits_key ON @workflow_waits (wait_kind, wait_key);
