-- Steps whose own writes commit together with their record. Each of these runs inside the user's transaction, or right
-- after it when nobody knows what became of it.

-- name: transaction_record
-- The record of a transaction, written last in it. No row if the run has ended or has another token now; a conflict if
-- the record is there already, by a commit that nobody heard of: then all of this transaction must go. The servers have
-- texts of their own, which lock the run's row until the commit.
INSERT INTO @operation_outputs (
    workflow_uuid, function_id, function_name, identity, fingerprint, output, serialization, owner_xid,
    started_at_epoch_ms, completed_at_epoch_ms
)
SELECT
    w.workflow_uuid, CAST(:position AS INTEGER), :name, :identity, :fingerprint, :output, :serialization, w.owner_xid,
    {now_ms} - :duration_ms, {now_ms}
FROM @workflow_status AS w
WHERE w.workflow_uuid = :id AND w.owner_xid = :token AND w.status || '' = 'PENDING';

-- name: transaction_progressed
-- A committed record shows that the run does not kill its executor before it gets anywhere.
UPDATE @workflow_status SET recovery_attempts = 0
WHERE workflow_uuid = :id AND owner_xid = :token AND recovery_attempts > 0;

-- fragment: lock_run
FOR UPDATE

-- name: transaction_recall
-- Whose the run is, and whether the record is there after all. A commit that is still under way has the run's row
-- locked, so {lock_run} waits for it; the answer is another statement's, which sees what was committed meanwhile.
SELECT w.workflow_uuid FROM @workflow_status AS w WHERE w.workflow_uuid = :id {lock_run};
SELECT
    w.status, w.owner_xid, o.owner_xid AS recorded_by, o.function_name, o.output, o.error, o.serialization
FROM @workflow_status AS w
LEFT JOIN @operation_outputs AS o ON o.workflow_uuid = w.workflow_uuid AND o.function_id = :position
WHERE w.workflow_uuid = :id;

-- name: outputs_create
-- What transactions gave back whose data is in this database and whose run is in another.
CREATE TABLE IF NOT EXISTS @transaction_outputs (
    workflow_id TEXT NOT NULL,
    creation_key TEXT NOT NULL,
    generation BIGINT NOT NULL,
    identity TEXT NOT NULL,
    output TEXT,
    serialization TEXT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (workflow_id, creation_key, generation, identity)
);
CREATE INDEX IF NOT EXISTS idx_transaction_outputs_created_at ON @transaction_outputs (created_at);

-- name: output_open
-- The first statement of a transaction elsewhere. It waits for an earlier one of the same key that is still under way,
-- and conflicts with it once that has committed.
INSERT INTO @transaction_outputs (workflow_id, creation_key, generation, identity, created_at)
VALUES (:workflow_id, :creation_key, :generation, :identity, {now_ms});

-- name: output_keep
-- The last statement of a transaction elsewhere. An output without a marker belongs to a transaction that was ended
-- before it came to this.
UPDATE @transaction_outputs SET output = :output, serialization = :serialization
WHERE workflow_id = :workflow_id AND creation_key = :creation_key AND generation = :generation
  AND identity = :identity AND serialization IS NULL;

-- name: output_look
SELECT output, serialization FROM @transaction_outputs
WHERE workflow_id = :workflow_id AND creation_key = :creation_key AND generation = :generation
  AND identity = :identity;

-- name: outputs_forget
-- A bounded number of the oldest.
DELETE FROM @transaction_outputs
WHERE (workflow_id, creation_key, generation, identity) IN (
    SELECT o.workflow_id, o.creation_key, o.generation, o.identity FROM @transaction_outputs AS o
    WHERE o.created_at < {now_ms} - :older_than_ms ORDER BY o.created_at LIMIT :most
);
