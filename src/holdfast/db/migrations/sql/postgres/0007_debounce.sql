-- Debounced runs: further calls may put them off until they are due, but not beyond the deadline.
ALTER TABLE @workflow_status ADD COLUMN is_debounced BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE @workflow_status ADD COLUMN debounce_deadline_epoch_ms BIGINT;
