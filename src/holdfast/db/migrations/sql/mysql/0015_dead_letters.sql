-- Dead letters: one table for the small queue and the full repository, how many there are of each sort, and summaries of
-- those that were evicted. Times are ISO-8601 texts of one width, so that their order is that of time.
CREATE TABLE IF NOT EXISTS @holdfast_dlq (
    id VARCHAR(64) NOT NULL PRIMARY KEY,
    workflow_id VARCHAR(255) NOT NULL DEFAULT '',
    error LONGTEXT NOT NULL,
    payload LONGTEXT NOT NULL,
    created_at VARCHAR(40) NOT NULL,
    retry_count INTEGER NOT NULL DEFAULT 0,
    max_retries INTEGER NOT NULL DEFAULT 3,
    next_retry_at VARCHAR(40),
    status VARCHAR(40) NOT NULL DEFAULT 'pending',
    domain VARCHAR(255) NOT NULL,
    failure_type VARCHAR(255) NOT NULL,
    error_code VARCHAR(255) NOT NULL DEFAULT '',
    error_message LONGTEXT,
    entity_type LONGTEXT,
    entity_id LONGTEXT,
    entity_refs LONGTEXT NOT NULL DEFAULT ('{}'),
    user_id BIGINT,
    snapshot_data LONGTEXT NOT NULL DEFAULT ('{}'),
    request_data LONGTEXT NOT NULL DEFAULT ('{}'),
    response_data LONGTEXT NOT NULL DEFAULT ('{}'),
    metadata LONGTEXT NOT NULL DEFAULT ('{}'),
    last_retry_at VARCHAR(40),
    resolved_at VARCHAR(40),
    resolved_by_id BIGINT,
    resolution_type LONGTEXT NOT NULL DEFAULT (''),
    resolution_note LONGTEXT NOT NULL DEFAULT (''),
    next_action_hint LONGTEXT NOT NULL DEFAULT (''),
    recommended_action LONGTEXT NOT NULL DEFAULT (''),
    updated_at VARCHAR(40) NOT NULL,
    expires_at VARCHAR(40),
    retry_delay_ms BIGINT,
    replay_token VARCHAR(64),
    replay_beat_at VARCHAR(40),
    version BIGINT NOT NULL DEFAULT 1,
    change_key LONGTEXT NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {key_collation};

-- Every listing is in the order of an index, down to the id; of a domain or a failure type, status by status.
CREATE INDEX idx_holdfast_dlq_created ON @holdfast_dlq (created_at, id);
CREATE INDEX idx_holdfast_dlq_status ON @holdfast_dlq (status, created_at, id);
CREATE INDEX idx_holdfast_dlq_domain_status ON @holdfast_dlq (domain, status, created_at, id);
CREATE INDEX idx_holdfast_dlq_type_status ON @holdfast_dlq (failure_type, status, created_at, id);
CREATE INDEX idx_holdfast_dlq_all_three ON @holdfast_dlq (domain, failure_type, status, created_at, id);
-- What is due: when it may be handed out next, also if somebody holds it now and lets the lease pass.
CREATE INDEX idx_holdfast_dlq_next_retry ON @holdfast_dlq (next_retry_at, id);
CREATE INDEX idx_holdfast_dlq_domain_next_retry ON @holdfast_dlq (domain, next_retry_at, id);
CREATE INDEX idx_holdfast_dlq_expires ON @holdfast_dlq (expires_at, id);
-- What may be archived, and what may be purged.
CREATE INDEX idx_holdfast_dlq_resolved ON @holdfast_dlq (status, resolved_at);
CREATE INDEX idx_holdfast_dlq_archived ON @holdfast_dlq (status, updated_at);

-- Counts that are written with every change, so that nobody has to count a million rows. Several connections write to
-- several slots: they do not wait for each other. A count is the sum over its slots.
CREATE TABLE IF NOT EXISTS @holdfast_dlq_counts (
    domain VARCHAR(255) NOT NULL,
    failure_type VARCHAR(255) NOT NULL,
    status VARCHAR(40) NOT NULL,
    slot INTEGER NOT NULL,
    number BIGINT NOT NULL,
    PRIMARY KEY (domain, failure_type, status, slot)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {key_collation};

CREATE TABLE IF NOT EXISTS @holdfast_dlq_compressed (
    id VARCHAR(640) NOT NULL PRIMARY KEY,
    domain VARCHAR(255) NOT NULL,
    failure_type VARCHAR(255) NOT NULL,
    error_code VARCHAR(255) NOT NULL,
    count BIGINT NOT NULL,
    first_seen VARCHAR(40) NOT NULL,
    last_seen VARCHAR(40) NOT NULL,
    sample_error_message LONGTEXT NOT NULL,
    sample_context LONGTEXT NOT NULL,
    status VARCHAR(40) NOT NULL DEFAULT 'active',
    compressed_at VARCHAR(40) NOT NULL,
    stale_at VARCHAR(40),
    archived_at VARCHAR(40),
    change_key LONGTEXT NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {key_collation};

CREATE INDEX idx_holdfast_dlq_compressed_at ON @holdfast_dlq_compressed (compressed_at, id);
