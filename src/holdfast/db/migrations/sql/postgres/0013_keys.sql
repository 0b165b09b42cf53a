-- Idempotency keys and their results, and checkpoints.
CREATE TABLE @holdfast_idempotency (
    idempotency_key TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    fingerprint TEXT NOT NULL,
    response_data TEXT NOT NULL,
    status_code INTEGER NOT NULL,
    headers TEXT DEFAULT '{}',
    created_at TEXT NOT NULL,
    expires_at TEXT COLLATE "C" NOT NULL,
    owner_token TEXT NOT NULL DEFAULT ''
);

CREATE INDEX idx_idempotency_expires ON @holdfast_idempotency (expires_at);

-- Keys are sorted and searched by their beginnings.
CREATE TABLE @holdfast_checkpoints (
    "key" TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    data BYTEA NOT NULL,
    size_bytes INTEGER NOT NULL,
    compressed BOOLEAN NOT NULL DEFAULT FALSE,
    created_at TEXT NOT NULL,
    accessed_at TEXT COLLATE "C" NOT NULL,
    save_key TEXT NOT NULL DEFAULT ''
);

CREATE INDEX idx_holdfast_checkpoints_accessed ON @holdfast_checkpoints (accessed_at);
