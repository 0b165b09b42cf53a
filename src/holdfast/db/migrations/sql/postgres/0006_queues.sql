-- Queues: their settings, which every process reads again with each look for work, and the turn of their partitions.
CREATE TABLE @queues (
    queue_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    name TEXT COLLATE "C" NOT NULL,
    concurrency INTEGER,
    worker_concurrency INTEGER,
    rate_limit_max INTEGER,
    rate_limit_period_sec DOUBLE PRECISION,
    priority_enabled BOOLEAN NOT NULL DEFAULT FALSE,
    partition_queue BOOLEAN NOT NULL DEFAULT FALSE,
    partition_concurrency INTEGER,
    partition_rate_limit_max INTEGER,
    partition_rate_limit_period_sec DOUBLE PRECISION,
    polling_interval_sec DOUBLE PRECISION NOT NULL DEFAULT 1.0,
    paused BOOLEAN NOT NULL DEFAULT FALSE,
    turn TEXT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    CONSTRAINT uq_queues_name UNIQUE (name)
);

-- The ledger of starts that rate limits count: one row a claim, whose token is its key, so that no claim counts twice.
-- Nothing that becomes of a run takes its start back. Rows that are older than the period go with later claims.
CREATE TABLE @queue_starts (
    token TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    queue_name TEXT COLLATE "C" NOT NULL,
    partition_key TEXT COLLATE "C" NOT NULL,
    workflow_uuid TEXT COLLATE "C" NOT NULL,
    started_at BIGINT NOT NULL
);

CREATE INDEX idx_queue_starts_queue ON @queue_starts (queue_name, started_at);
CREATE INDEX idx_queue_starts_partition ON @queue_starts (queue_name, partition_key, started_at);

-- Claims: what waits is found in the order in which it is claimed, down to the id. Runs that were enqueued together have
-- the same time, and there may be very many of them: none may have to be sorted for a claim.
--
-- Their condition is written as no other index has it, and as nothing but a claim asks: status = 'ENQUEUED' would also
-- fit the indexes of listings, which lead through all ended runs, and statistics from a moment when little waited
-- would make sorting look cheap.
DROP INDEX @idx_workflow_status_queue;
CREATE INDEX idx_workflow_status_queue ON @workflow_status (queue_name, priority, created_at, workflow_uuid)
    WHERE '' || status = 'ENQUEUED';
CREATE INDEX idx_workflow_status_queue_age ON @workflow_status (queue_name, created_at, workflow_uuid)
    WHERE '' || status = 'ENQUEUED';
-- The same within a partition; only runs that have a partition key pay for it.
CREATE INDEX idx_workflow_status_partition
    ON @workflow_status (queue_name, queue_partition_key, priority, created_at, workflow_uuid)
    WHERE '' || status = 'ENQUEUED' AND queue_partition_key IS NOT NULL;
CREATE INDEX idx_workflow_status_partition_age
    ON @workflow_status (queue_name, queue_partition_key, created_at, workflow_uuid)
    WHERE '' || status = 'ENQUEUED' AND queue_partition_key IS NOT NULL;
-- The slots of a queue that are taken, for its limits.
CREATE INDEX idx_workflow_status_slots ON @workflow_status (queue_name, queue_partition_key)
    WHERE status = 'PENDING' AND queue_name IS NOT NULL;

-- Which database this is, told from every other one: a run that is put in a queue with a transaction of the user's own
-- must be in the one where it is looked for.
INSERT INTO @holdfast_meta ("key", "value") VALUES ('database_id', md5(CAST(random() AS text) || CAST(clock_timestamp() AS text)));
