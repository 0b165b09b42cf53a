-- Queues: their settings, which every process reads again with each look for work, and the turn of their partitions.
CREATE TABLE IF NOT EXISTS @queues (
    queue_id VARCHAR(64) NOT NULL PRIMARY KEY,
    name VARCHAR(255) NOT NULL,
    concurrency INTEGER,
    worker_concurrency INTEGER,
    rate_limit_max INTEGER,
    rate_limit_period_sec DOUBLE,
    priority_enabled BOOLEAN NOT NULL DEFAULT FALSE,
    partition_queue BOOLEAN NOT NULL DEFAULT FALSE,
    partition_concurrency INTEGER,
    partition_rate_limit_max INTEGER,
    partition_rate_limit_period_sec DOUBLE,
    polling_interval_sec DOUBLE NOT NULL DEFAULT 1.0,
    paused BOOLEAN NOT NULL DEFAULT FALSE,
    turn VARCHAR(255),
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    CONSTRAINT uq_queues_name UNIQUE (name)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {key_collation};

-- The ledger of starts that rate limits count: one row a claim, whose token is its key, so that no claim counts twice.
-- Nothing that becomes of a run takes its start back. Rows that are older than the period go with later claims.
CREATE TABLE IF NOT EXISTS @queue_starts (
    token VARCHAR(320) NOT NULL PRIMARY KEY,
    queue_name VARCHAR(255) NOT NULL,
    partition_key VARCHAR(255) NOT NULL,
    workflow_uuid VARCHAR(255) NOT NULL,
    started_at BIGINT NOT NULL,
    INDEX idx_queue_starts_queue (queue_name, started_at),
    INDEX idx_queue_starts_partition (queue_name, partition_key, started_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {key_collation};

-- Claims: what waits is found in the order in which it is claimed, down to the id, which stands at the end of every index
-- by itself. Runs that were enqueued together have the same time, and there may be very many of them: none may have to
-- be sorted for a claim. There are no partial indexes here, and every index is written by every change of a status: so
-- priorities within a partition have none. The first columns of the last index also find the slots that are taken.
ALTER TABLE @workflow_status DROP INDEX idx_workflow_status_queue;
CREATE INDEX idx_workflow_status_queue ON @workflow_status (status, queue_name, priority, created_at);
CREATE INDEX idx_workflow_status_queue_age ON @workflow_status (status, queue_name, created_at);
CREATE INDEX idx_workflow_status_partition_age
    ON @workflow_status (status, queue_name, queue_partition_key, created_at);

-- Which database this is, told from every other one: a run that is put in a queue with a transaction of the user's own
-- must be in the one where it is looked for.
INSERT INTO @holdfast_meta ("key", "value") VALUES ('database_id', UUID())
ON DUPLICATE KEY UPDATE "value" = "value";
