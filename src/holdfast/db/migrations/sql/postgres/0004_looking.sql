-- Listings: the newest runs under any one filter, however many runs there are.
--
-- An index of a filter begins with its column and goes on in the order of a listing. PENDING runs are not in it: a run
-- that is started and finished is written to it once and not twice, and what is PENDING is found by its owner. Columns
-- that few runs use cost only those runs.
CREATE INDEX idx_workflow_status_list_status ON @workflow_status (status, created_at) WHERE status <> 'PENDING';
CREATE INDEX idx_workflow_status_list_name ON @workflow_status (name, created_at) WHERE status <> 'PENDING';
CREATE INDEX idx_workflow_status_list_version ON @workflow_status (application_version, created_at)
    WHERE status <> 'PENDING' AND application_version IS NOT NULL;
-- An application that was given no name of its own costs nothing: most databases have only one.
CREATE INDEX idx_workflow_status_list_application ON @workflow_status (application_id, created_at)
    WHERE status <> 'PENDING' AND application_id <> 'holdfast';
CREATE INDEX idx_workflow_status_list_executor ON @workflow_status (executor_id, created_at)
    WHERE status <> 'PENDING' AND executor_id IS NOT NULL;
CREATE INDEX idx_workflow_status_list_updated ON @workflow_status (updated_at) WHERE status <> 'PENDING';
CREATE INDEX idx_workflow_status_list_class ON @workflow_status (class_name, created_at)
    WHERE status <> 'PENDING' AND class_name IS NOT NULL;
CREATE INDEX idx_workflow_status_list_config ON @workflow_status (config_name, created_at)
    WHERE status <> 'PENDING' AND config_name IS NOT NULL;
CREATE INDEX idx_workflow_status_list_user ON @workflow_status (authenticated_user, created_at)
    WHERE status <> 'PENDING' AND authenticated_user IS NOT NULL;
CREATE INDEX idx_workflow_status_list_role ON @workflow_status (assumed_role, created_at)
    WHERE status <> 'PENDING' AND assumed_role IS NOT NULL;
CREATE INDEX idx_workflow_status_list_queue ON @workflow_status (queue_name, created_at)
    WHERE status <> 'PENDING' AND queue_name IS NOT NULL;
CREATE INDEX idx_workflow_status_list_partition ON @workflow_status (queue_partition_key, created_at)
    WHERE status <> 'PENDING' AND queue_partition_key IS NOT NULL;
-- || '' keeps the index of the statuses out of it, which would lead to all that waits, in no order.
CREATE INDEX idx_workflow_status_list_waiting ON @workflow_status (created_at)
    WHERE status || '' IN ('ENQUEUED', 'DELAYED');
CREATE INDEX idx_workflow_status_list_priority ON @workflow_status (priority, created_at)
    WHERE status <> 'PENDING' AND priority <> 0;
-- + 0 keeps it out of the statement that sets attempts back, which finds its runs by their key.
CREATE INDEX idx_workflow_status_list_attempts ON @workflow_status (recovery_attempts)
    WHERE recovery_attempts + 0 > 0;
CREATE INDEX idx_workflow_status_list_deadline ON @workflow_status (created_at)
    WHERE status <> 'PENDING' AND workflow_deadline_epoch_ms IS NOT NULL;
-- Forks in the order of a listing; || '' keeps the index of what they were forked from out of it, which has another.
CREATE INDEX idx_workflow_status_list_forks ON @workflow_status (created_at)
    WHERE status <> 'PENDING' AND forked_from || '' IS NOT NULL;
CREATE INDEX idx_workflow_status_list_forked ON @workflow_status (created_at)
    WHERE status <> 'PENDING' AND was_forked_from;
-- An attribute that holds the escape of NUL is JSON, but jsonb refuses it: such a run is not found by its attributes.
CREATE INDEX idx_workflow_status_list_attributes ON @workflow_status USING gin (
    (CASE WHEN strpos(attributes, '\u0000') = 0 THEN CAST(attributes AS jsonb) END) jsonb_path_ops
) WITH (fastupdate = on) WHERE attributes IS NOT NULL;

-- A parent may have very many children, and a run very many forks: they are found in the order of a listing, too.
DROP INDEX @idx_workflow_status_parent_workflow_id;
CREATE INDEX idx_workflow_status_parent_workflow_id ON @workflow_status (parent_workflow_id, created_at)
    WHERE parent_workflow_id IS NOT NULL;
DROP INDEX @idx_workflow_status_forked_from;
CREATE INDEX idx_workflow_status_forked_from ON @workflow_status (forked_from, created_at)
    WHERE forked_from IS NOT NULL;
