-- Dead letters: one table for the small queue and the full repository, how many there are of each sort, and summaries of
-- those that were evicted. Times are ISO-8601 texts of one width, so that their order is that of time; what is sorted is
-- sorted byte by byte, whatever the language of the database.
CREATE TABLE @holdfast_dlq (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    workflow_id TEXT NOT NULL DEFAULT '',
    error TEXT NOT NULL,
    payload TEXT NOT NULL,
    created_at TEXT COLLATE "C" NOT NULL,
    retry_count INTEGER NOT NULL DEFAULT 0,
    max_retries INTEGER NOT NULL DEFAULT 3,
    next_retry_at TEXT COLLATE "C",
    status TEXT COLLATE "C" NOT NULL DEFAULT 'pending',
    domain TEXT COLLATE "C" NOT NULL,
    failure_type TEXT COLLATE "C" NOT NULL,
    error_code TEXT NOT NULL DEFAULT '',
    error_message TEXT,
    entity_type TEXT,
    entity_id TEXT,
    entity_refs TEXT NOT NULL DEFAULT '{}',
    user_id BIGINT,
    snapshot_data TEXT NOT NULL DEFAULT '{}',
    request_data TEXT NOT NULL DEFAULT '{}',
    response_data TEXT NOT NULL DEFAULT '{}',
    metadata TEXT NOT NULL DEFAULT '{}',
    last_retry_at TEXT COLLATE "C",
    resolved_at TEXT COLLATE "C",
    resolved_by_id BIGINT,
    resolution_type TEXT NOT NULL DEFAULT '',
    resolution_note TEXT NOT NULL DEFAULT '',
    next_action_hint TEXT NOT NULL DEFAULT '',
    recommended_action TEXT NOT NULL DEFAULT '',
    updated_at TEXT COLLATE "C" NOT NULL,
    expires_at TEXT COLLATE "C",
    retry_delay_ms BIGINT,
    replay_token TEXT,
    replay_beat_at TEXT COLLATE "C",
    version BIGINT NOT NULL DEFAULT 1,
    change_key TEXT NOT NULL
);

-- Every listing is in the order of an index, down to the id; of a domain or a failure type, status by status.
CREATE INDEX idx_holdfast_dlq_created ON @holdfast_dlq (created_at, id);
CREATE INDEX idx_holdfast_dlq_status ON @holdfast_dlq (status, created_at, id);
CREATE INDEX idx_holdfast_dlq_domain_status ON @holdfast_dlq (domain, status, created_at, id);
CREATE INDEX idx_holdfast_dlq_type_status ON @holdfast_dlq (failure_type, status, created_at, id);
CREATE INDEX idx_holdfast_dlq_all_three ON @holdfast_dlq (domain, failure_type, status, created_at, id);
-- What is due: when it may be handed out next, also if somebody holds it now and lets the lease pass.
CREATE INDEX idx_holdfast_dlq_next_retry ON @holdfast_dlq (next_retry_at, id) WHERE next_retry_at IS NOT NULL;
CREATE INDEX idx_holdfast_dlq_domain_next_retry ON @holdfast_dlq (domain, next_retry_at, id)
WHERE next_retry_at IS NOT NULL;
CREATE INDEX idx_holdfast_dlq_expires ON @holdfast_dlq (expires_at, id) WHERE expires_at IS NOT NULL;
-- What may be archived, and what may be purged.
CREATE INDEX idx_holdfast_dlq_resolved ON @holdfast_dlq (status, resolved_at) WHERE resolved_at IS NOT NULL;
CREATE INDEX idx_holdfast_dlq_archived ON @holdfast_dlq (status, updated_at) WHERE status = 'archived';

-- Counts that are written with every change, so that nobody has to count a million rows. Several connections write to
-- several slots: they do not wait for each other. A count is the sum over its slots. Rows are changed often and in place.
CREATE TABLE @holdfast_dlq_counts (
    domain TEXT COLLATE "C" NOT NULL,
    failure_type TEXT COLLATE "C" NOT NULL,
    status TEXT COLLATE "C" NOT NULL,
    slot INTEGER NOT NULL,
    number BIGINT NOT NULL,
    PRIMARY KEY (domain, failure_type, status, slot)
) WITH (fillfactor = 50);

CREATE TABLE @holdfast_dlq_compressed (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    domain TEXT COLLATE "C" NOT NULL,
    failure_type TEXT COLLATE "C" NOT NULL,
    error_code TEXT NOT NULL,
    count BIGINT NOT NULL,
    first_seen TEXT NOT NULL,
    last_seen TEXT NOT NULL,
    sample_error_message TEXT NOT NULL,
    sample_context TEXT NOT NULL,
    status TEXT COLLATE "C" NOT NULL DEFAULT 'active',
    compressed_at TEXT COLLATE "C" NOT NULL,
    stale_at TEXT,
    archived_at TEXT,
    change_key TEXT NOT NULL
);

CREATE INDEX idx_holdfast_dlq_compressed_at ON @holdfast_dlq_compressed (compressed_at, id);
