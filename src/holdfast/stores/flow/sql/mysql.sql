-- name: flow_server_version
-- only: mysql
SELECT VERSION() AS version;

-- name: flow_present
-- Looked for first: CREATE TABLE IF NOT EXISTS warns if it is there.
SELECT 1 AS present FROM information_schema.tables
WHERE table_schema = COALESCE({schema_name}, DATABASE()) AND table_name = {table_name};

-- name: flow_create
CREATE TABLE IF NOT EXISTS {cards} (
    sequence BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    id VARCHAR(512) NOT NULL UNIQUE,
    flow_id VARCHAR(512) NOT NULL,
    run_id VARCHAR(512) NOT NULL,
    wf_run_id VARCHAR(512) NOT NULL,
    status VARCHAR(32) NOT NULL,
    parent_checkpoint_id VARCHAR(512),
    created_at VARCHAR(32) NOT NULL,
    updated_at VARCHAR(32) NOT NULL,
    resume_at VARCHAR(32),
    revision INTEGER NOT NULL,
    write_key VARCHAR(64) NOT NULL,
    claim_token VARCHAR(64),
    claim_until BIGINT,
    data LONGTEXT NOT NULL,
    INDEX {cards_flow_created} (flow_id, created_at DESC, sequence DESC),
    INDEX {cards_flow_status} (flow_id, status, created_at DESC, sequence DESC),
    INDEX {cards_run} (run_id),
    INDEX {cards_wf_run} (wf_run_id),
    INDEX {cards_waiting} (status, created_at),
    INDEX {cards_due} (resume_at)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE {key_collation};

-- name: flow_insert
-- Nothing if there is one of this id; a number of the sequence is lost then.
INSERT INTO {cards} (
    id, flow_id, run_id, wf_run_id, status, parent_checkpoint_id, created_at, updated_at, resume_at, revision,
    write_key, data
)
SELECT
    :id, :flow_id, :run_id, :wf_run_id, :status, :parent_id, :created_at, :updated_at, :resume_at, :revision,
    :write_key, :data
FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM {cards} AS there WHERE there.id = :id);

-- name: flow_delete_all
DELETE c FROM {rows} AS r STRAIGHT_JOIN {cards} AS c ON c.id = r.id AND c.revision = r.revision
WHERE c.claim_until IS NULL OR c.claim_until <= {now_ms};

-- name: flow_claim
UPDATE {cards}
SET claim_token = :token, claim_until = {now_ms} + :lease_ms, revision = revision + 1
WHERE id = :id AND status NOT IN ('completed', 'canceled') AND (claim_until IS NULL OR claim_until <= {now_ms});

-- name: flow_hold
UPDATE {cards} SET claim_token = :token, claim_until = {now_ms} + :lease_ms WHERE id = :id;

-- name: flow_extend
UPDATE {cards} SET claim_until = {now_ms} + :lease_ms
WHERE id = :id AND claim_token = :token AND claim_until > {now_ms};
