-- Idempotency keys and their results, and checkpoints.
CREATE TABLE IF NOT EXISTS @holdfast_idempotency (
    idempotency_key VARCHAR(512) NOT NULL PRIMARY KEY,
    fingerprint VARCHAR(512) NOT NULL,
    response_data LONGTEXT NOT NULL,
    status_code INTEGER NOT NULL,
    headers LONGTEXT DEFAULT ('{}'),
    created_at VARCHAR(40) NOT NULL,
    expires_at VARCHAR(40) NOT NULL,
    owner_token VARCHAR(512) NOT NULL DEFAULT '',
    INDEX idx_idempotency_expires (expires_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {key_collation};

CREATE TABLE IF NOT EXISTS @holdfast_checkpoints (
    "key" VARCHAR(512) NOT NULL PRIMARY KEY,
    data LONGBLOB NOT NULL,
    size_bytes INTEGER NOT NULL,
    compressed BOOLEAN NOT NULL DEFAULT FALSE,
    created_at VARCHAR(40) NOT NULL,
    accessed_at VARCHAR(40) NOT NULL,
    save_key VARCHAR(64) NOT NULL DEFAULT '',
    INDEX idx_holdfast_checkpoints_accessed (accessed_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {key_collation};
