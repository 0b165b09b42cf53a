-- Listings. There are no partial indexes here, and every index is written by every start: so only the filters that are
-- used most have one. The key stands at the end of every index by itself, so that a listing can be read in its order.
CREATE INDEX idx_workflow_status_list_status ON @workflow_status (status, created_at);
CREATE INDEX idx_workflow_status_list_name ON @workflow_status (name, created_at);
