-- Control of runs: how often a run was tried again as a whole, the key of the last change somebody asked for, deadlines
-- that are found when they pass, and whose records name a run as a child.
ALTER TABLE @workflow_status ADD COLUMN retries INTEGER NOT NULL DEFAULT 0;
ALTER TABLE @workflow_status ADD COLUMN change_key TEXT;
ALTER TABLE @workflow_status ADD COLUMN cancel_key TEXT;
CREATE INDEX idx_workflow_status_deadline ON @workflow_status (workflow_deadline_epoch_ms)
    WHERE workflow_deadline_epoch_ms IS NOT NULL AND status IN ('PENDING', 'ENQUEUED', 'DELAYED');
CREATE INDEX idx_operation_outputs_child ON @operation_outputs (child_workflow_id) WHERE child_workflow_id IS NOT NULL;
