-- Flow checkpoints. The table has a name of the user's choice: {cards}, with indexes of names made from it.

-- fragment: data
data

-- name: flow_create
CREATE TABLE IF NOT EXISTS {cards} (
    {sequence_column},
    id TEXT NOT NULL UNIQUE,
    flow_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    wf_run_id TEXT NOT NULL,
    status TEXT NOT NULL,
    parent_checkpoint_id TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    resume_at TEXT,
    revision INTEGER NOT NULL,
    write_key TEXT NOT NULL,
    claim_token TEXT,
    claim_until BIGINT,
    {data} TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS {cards_flow_created} ON {cards} (flow_id, created_at DESC, sequence DESC);
CREATE INDEX IF NOT EXISTS {cards_flow_status} ON {cards} (flow_id, status, created_at DESC, sequence DESC);
CREATE INDEX IF NOT EXISTS {cards_run} ON {cards} (run_id);
CREATE INDEX IF NOT EXISTS {cards_wf_run} ON {cards} (wf_run_id);
CREATE INDEX IF NOT EXISTS {cards_waiting} ON {cards} (created_at, sequence)
    WHERE status IN ('paused', 'pending_input');
CREATE INDEX IF NOT EXISTS {cards_due} ON {cards} (resume_at) WHERE resume_at IS NOT NULL;

-- name: flow_insert
INSERT INTO {cards} (
    id, flow_id, run_id, wf_run_id, status, parent_checkpoint_id, created_at, updated_at, resume_at, revision,
    write_key, {data}
) VALUES (
    :id, :flow_id, :run_id, :wf_run_id, :status, :parent_id, :created_at, :updated_at, :resume_at, :revision,
    :write_key, :data
) ON CONFLICT DO NOTHING;

-- name: flow_update
-- A newer revision; never of another flow.
UPDATE {cards}
SET run_id = :run_id, wf_run_id = :wf_run_id, status = :status, parent_checkpoint_id = :parent_id,
    updated_at = :updated_at, resume_at = :resume_at, revision = :revision, write_key = :write_key, {data} = :data
WHERE id = :id AND flow_id = :flow_id AND revision = :expected;

-- name: flow_head
SELECT flow_id, revision, write_key, claim_token FROM {cards} WHERE id = :id;

-- name: flow_get
SELECT
    id, flow_id, run_id, wf_run_id, status, parent_checkpoint_id, created_at, updated_at, resume_at, revision, sequence,
    {data} AS data
FROM {cards} WHERE id = :id;

-- name: flow_delete
DELETE FROM {cards} WHERE id = :id;

-- name: flow_query
-- With the switch whole the snapshots themselves.
SELECT
    id, flow_id, run_id, wf_run_id, status, parent_checkpoint_id, created_at, updated_at, resume_at, revision, sequence
    [[ whole? , {data} AS data ]]
FROM {cards}
WHERE true
    [[ AND flow_id = :flow_id ]]
    [[ AND (run_id = :run_id OR wf_run_id = :run_id) ]]
    [[ AND status = :status ]]
    [[ waiting? AND status IN ('paused', 'pending_input') ]]
    [[ AND created_at < :before ]]
ORDER BY created_at DESC, sequence DESC
LIMIT :most;

-- name: flow_due
-- What waits for a moment that has come, the earliest first.
SELECT
    id, flow_id, run_id, wf_run_id, status, parent_checkpoint_id, created_at, updated_at, resume_at, revision, sequence
    [[ whole? , {data} AS data ]]
FROM {cards}
WHERE resume_at <= :due_at
    [[ AND flow_id = :flow_id ]]
    [[ waiting? AND status IN ('paused', 'pending_input') ]]
ORDER BY resume_at, sequence
LIMIT :most;

-- name: flow_delete_all
-- rows: id text, revision int
-- Those that nobody holds: a claim that came before the cards were read has raised the revision already.
DELETE FROM {cards}
WHERE (id, revision) IN (SELECT r.id, r.revision FROM {rows} AS r) AND (claim_until IS NULL OR claim_until <= {now_ms});

-- name: flow_claim
-- One of all who ask: whoever finds it free. The revision shuts out whoever had it before.
UPDATE {cards}
SET claim_token = :token, claim_until = {now_ms} + CAST(:lease_ms AS bigint), revision = revision + 1
WHERE id = :id AND status NOT IN ('completed', 'canceled') AND (claim_until IS NULL OR claim_until <= {now_ms});

-- name: flow_hold
-- A card that was stored in the same transaction is held from the beginning.
UPDATE {cards} SET claim_token = :token, claim_until = {now_ms} + CAST(:lease_ms AS bigint) WHERE id = :id;

-- name: flow_extend
UPDATE {cards} SET claim_until = {now_ms} + CAST(:lease_ms AS bigint)
WHERE id = :id AND claim_token = :token AND claim_until > {now_ms};

-- name: flow_release
UPDATE {cards} SET claim_token = NULL, claim_until = NULL
WHERE id = :id AND claim_token = :token AND claim_until > {now_ms};
