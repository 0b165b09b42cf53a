-- Idempotency keys and their results, and checkpoints.
CREATE TABLE @holdfast_idempotency (
    idempotency_key TEXT NOT NULL PRIMARY KEY,
    fingerprint TEXT NOT NULL,
    response_data TEXT NOT NULL,
    status_code INTEGER NOT NULL,
    headers TEXT DEFAULT '{}',
    created_at TEXT NOT NULL,
    expires_at TEXT NOT NULL,
    owner_token TEXT NOT NULL DEFAULT ''
);

CREATE INDEX idx_idempotency_expires ON @holdfast_idempotency (expires_at);

CREATE TABLE @holdfast_checkpoints (
    "key" TEXT NOT NULL PRIMARY KEY,
    data BLOB NOT NULL,
    size_bytes INTEGER NOT NULL,
    compressed BOOLEAN NOT NULL DEFAULT FALSE,
    created_at TEXT NOT NULL,
    accessed_at TEXT NOT NULL,
    save_key TEXT NOT NULL DEFAULT ''
);

CREATE INDEX idx_holdfast_checkpoints_accessed ON @holdfast_checkpoints (accessed_at);
