-- Control of runs: how often a run was tried again as a whole, the key of the last change somebody asked for, deadlines
-- that are found when they pass, and whose records name a run as a child.
ALTER TABLE @workflow_status ADD COLUMN retries INTEGER NOT NULL DEFAULT 0;
ALTER TABLE @workflow_status ADD COLUMN change_key TEXT;
ALTER TABLE @workflow_status ADD COLUMN cancel_key TEXT;
CREATE INDEX idx_workflow_status_deadline ON @workflow_status (workflow_deadline_epoch_ms)
    WHERE workflow_deadline_epoch_ms IS NOT NULL AND status IN ('PENDING', 'ENQUEUED', 'DELAYED');
CREATE INDEX idx_operation_outputs_child ON @operation_outputs (child_workflow_id) WHERE child_workflow_id IS NOT NULL;

-- Most runs have no deduplication id, and need no place in its index, which every start and every end would write.
ALTER TABLE @workflow_status DROP CONSTRAINT uq_workflow_status_queue_name_dedup_id;
CREATE UNIQUE INDEX uq_workflow_status_queue_name_dedup_id ON @workflow_status (queue_name, deduplication_id)
    WHERE deduplication_id IS NOT NULL;
