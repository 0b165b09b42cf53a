-- Dead letters: one table for the small queue and the full repository, how many there are of each sort, and summaries of
-- those that were evicted. Times are ISO-8601 texts of one width, so that their order is that of time.
CREATE TABLE @holdfast_dlq (
    id TEXT NOT NULL PRIMARY KEY,
    workflow_id TEXT NOT NULL DEFAULT '',
    error TEXT NOT NULL,
    payload TEXT NOT NULL,
    created_at TEXT NOT NULL,
    retry_count INTEGER NOT NULL DEFAULT 0,
    max_retries INTEGER NOT NULL DEFAULT 3,
    next_retry_at TEXT,
    status TEXT NOT NULL DEFAULT 'pending',
    domain TEXT NOT NULL,
    failure_type TEXT NOT NULL,
    error_code TEXT NOT NULL DEFAULT '',
    error_message TEXT,
    entity_type TEXT,
    entity_id TEXT,
    entity_refs TEXT NOT NULL DEFAULT '{}',
    user_id INTEGER,
    snapshot_data TEXT NOT NULL DEFAULT '{}',
    request_data TEXT NOT NULL DEFAULT '{}',
    response_data TEXT NOT NULL DEFAULT '{}',
    metadata TEXT NOT NULL DEFAULT '{}',
    last_retry_at TEXT,
    resolved_at TEXT,
    resolved_by_id INTEGER,
    resolution_type TEXT NOT NULL DEFAULT '',
    resolution_note TEXT NOT NULL DEFAULT '',
    next_action_hint TEXT NOT NULL DEFAULT '',
    recommended_action TEXT NOT NULL DEFAULT '',
    updated_at TEXT NOT NULL,
    expires_at TEXT,
    retry_delay_ms INTEGER,
    replay_token TEXT,
    replay_beat_at TEXT,
    version INTEGER NOT NULL DEFAULT 1,
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

-- Counts that are written with every change, so that nobody has to count a million rows.
CREATE TABLE @holdfast_dlq_counts (
    domain TEXT NOT NULL,
    failure_type TEXT NOT NULL,
    status TEXT NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (domain, failure_type, status)
) WITHOUT ROWID;

CREATE TRIGGER count_dead_letter AFTER INSERT ON @holdfast_dlq
BEGIN
    INSERT INTO @holdfast_dlq_counts (domain, failure_type, status, number)
    VALUES (NEW.domain, NEW.failure_type, NEW.status, 1)
    ON CONFLICT (domain, failure_type, status) DO UPDATE SET number = number + 1;
END;

CREATE TRIGGER count_moved_dead_letter AFTER UPDATE OF domain, failure_type, status ON @holdfast_dlq
WHEN (NEW.domain, NEW.failure_type, NEW.status) <> (OLD.domain, OLD.failure_type, OLD.status)
BEGIN
    UPDATE @holdfast_dlq_counts SET number = number - 1
    WHERE domain = OLD.domain AND failure_type = OLD.failure_type AND status = OLD.status;
    INSERT INTO @holdfast_dlq_counts (domain, failure_type, status, number)
    VALUES (NEW.domain, NEW.failure_type, NEW.status, 1)
    ON CONFLICT (domain, failure_type, status) DO UPDATE SET number = number + 1;
END;

CREATE TRIGGER count_dead_letter_no_more AFTER DELETE ON @holdfast_dlq
BEGIN
    UPDATE @holdfast_dlq_counts SET number = number - 1
    WHERE domain = OLD.domain AND failure_type = OLD.failure_type AND status = OLD.status;
END;

CREATE TABLE @holdfast_dlq_compressed (
    id TEXT NOT NULL PRIMARY KEY,
    domain TEXT NOT NULL,
    failure_type TEXT NOT NULL,
    error_code TEXT NOT NULL,
    count INTEGER NOT NULL,
    first_seen TEXT NOT NULL,
    last_seen TEXT NOT NULL,
    sample_error_message TEXT NOT NULL,
    sample_context TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'active',
    compressed_at TEXT NOT NULL,
    stale_at TEXT,
    archived_at TEXT,
    change_key TEXT NOT NULL
);

CREATE INDEX idx_holdfast_dlq_compressed_at ON @holdfast_dlq_compressed (compressed_at, id);
