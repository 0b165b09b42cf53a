-- name: transaction_record
-- LOCK IN SHARE MODE holds the run's row until commit: a plain read would let a take-over pass this write.
INSERT INTO @operation_outputs (
    workflow_uuid, function_id, function_name, identity, fingerprint, output, serialization, owner_xid,
    started_at_epoch_ms, completed_at_epoch_ms
)
SELECT
    w.workflow_uuid, :position, :name, :identity, :fingerprint, :output, :serialization, w.owner_xid,
    {now_ms} - :duration_ms, {now_ms}
FROM @workflow_status AS w FORCE INDEX (PRIMARY)
WHERE w.workflow_uuid = :id AND w.owner_xid = :token AND w.status = 'PENDING'
LOCK IN SHARE MODE;

-- name: outputs_server_version
-- only: mysql
SELECT VERSION() AS version;

-- name: outputs_present
SELECT 1 AS present FROM information_schema.tables
WHERE table_schema = DATABASE() AND table_name = 'transaction_outputs';

-- name: outputs_create
CREATE TABLE IF NOT EXISTS @transaction_outputs (
    workflow_id VARCHAR(255) NOT NULL,
    creation_key VARCHAR(255) NOT NULL,
    generation BIGINT NOT NULL,
    identity VARCHAR(255) NOT NULL,
    output LONGTEXT,
    serialization VARCHAR(255),
    created_at BIGINT NOT NULL,
    PRIMARY KEY (workflow_id, creation_key, generation, identity),
    INDEX idx_transaction_outputs_created_at (created_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {key_collation};

-- name: outputs_forget
DELETE FROM @transaction_outputs WHERE created_at < {now_ms} - :older_than_ms ORDER BY created_at LIMIT :most;

-- name: call_mark
-- A procedure may end the transaction and begin another, which the server's flag does not show: this mark is gone then.
-- only: mysql
SAVEPOINT holdfast_before_call;

-- name: call_marked
-- only: mysql
RELEASE SAVEPOINT holdfast_before_call;

-- name: limits_lower
-- For the session, which has no limits for one transaction alone; limits_restore sets back. Only MariaDB ends a session
-- for its silence.
-- only: postgres, mysql
SET
    @"holdfast_silence" = @@SESSION.idle_transaction_timeout,
    @"holdfast_wait" = @@SESSION.innodb_lock_wait_timeout,
    SESSION idle_transaction_timeout
    = IF(@@SESSION.idle_transaction_timeout BETWEEN 1 AND :pause, @@SESSION.idle_transaction_timeout, :pause),
    SESSION innodb_lock_wait_timeout = LEAST(@@SESSION.innodb_lock_wait_timeout, GREATEST(1, :pause DIV 2));

-- name: limits_restore
-- only: mysql
SET SESSION idle_transaction_timeout = @"holdfast_silence", SESSION innodb_lock_wait_timeout = @"holdfast_wait";

-- name: waits_lower
-- The same for MySQL.
-- only: mysql
SET
    @"holdfast_wait" = @@SESSION.innodb_lock_wait_timeout,
    SESSION innodb_lock_wait_timeout = LEAST(@@SESSION.innodb_lock_wait_timeout, GREATEST(1, :pause DIV 2));

-- name: waits_restore
-- only: mysql
SET SESSION innodb_lock_wait_timeout = @"holdfast_wait";
