-- Runs that are put away while they wait: what for, besides a moment. A wait is checked by every poll, and one that
-- nobody has any more is removed by it. There is no foreign key: a run that is deleted may be a link of a chain, and
-- whoever is behind it waits for those before it.
ALTER TABLE @workflow_status ADD COLUMN wait_kind VARCHAR(40);
CREATE TABLE IF NOT EXISTS @workflow_waits (
    workflow_uuid VARCHAR(255) NOT NULL,
    wait_kind VARCHAR(40) NOT NULL,
    wait_key VARCHAR(255) NOT NULL,
    PRIMARY KEY (workflow_uuid, wait_kind, wait_key),
    INDEX idx_workflow_waits_key (wait_kind, wait_key)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {key_collation};
