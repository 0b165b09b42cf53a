-- Runs that are put away while they wait: what for, besides a moment. A wait is checked by every poll, and one that
-- nobody has any more is removed by it. There is no foreign key: a run that is deleted may be a link of a chain, and
-- whoever is behind it waits for those before it.
ALTER TABLE @workflow_status ADD COLUMN wait_kind TEXT;
CREATE TABLE @workflow_waits (
    workflow_uuid TEXT COLLATE "C" NOT NULL,
    wait_kind TEXT COLLATE "C" NOT NULL,
    wait_key TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (workflow_uuid, wait_kind, wait_key)
);
CREATE INDEX idx_workflow_waits_key ON @workflow_waits (wait_kind, wait_key);
