-- fragment: lock_run
-- One writer is lock enough here.

-- name: outputs_present
-- Whether the table is there.
SELECT 1 AS present FROM sqlite_master WHERE type = 'table' AND name = 'transaction_outputs';
