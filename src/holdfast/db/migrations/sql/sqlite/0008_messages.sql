-- Messages to runs and events of runs.
--
-- Messages to one run are numbered by a counter that a sender locks until commit: a later number never commits first.
-- The counter has a row of its own, so that senders do not lock the row of the run, which its executor writes. A message
-- belongs to its counter, and the counter to its run: the run is looked up once, for the first message, and not again.
CREATE TABLE @message_counters (
    workflow_uuid TEXT NOT NULL PRIMARY KEY,
    last_sequence BIGINT NOT NULL,
    CONSTRAINT fk_message_counters_run FOREIGN KEY (workflow_uuid)
        REFERENCES @workflow_status (workflow_uuid) ON DELETE CASCADE
);

CREATE TABLE @notifications (
    message_uuid TEXT NOT NULL PRIMARY KEY,
    destination_uuid TEXT NOT NULL,
    topic TEXT NOT NULL,
    message TEXT,
    created_at_epoch_ms BIGINT NOT NULL,
    serialization TEXT,
    consumed BOOLEAN NOT NULL DEFAULT FALSE,
    consumed_by_function_id INTEGER,
    sequence BIGINT NOT NULL,
    CONSTRAINT fk_notifications_counter FOREIGN KEY (destination_uuid)
        REFERENCES @message_counters (workflow_uuid) ON DELETE CASCADE
);
-- What recv() takes next.
CREATE INDEX idx_workflow_topic ON @notifications (destination_uuid, topic, sequence) WHERE consumed = FALSE;
-- All messages of a run in their order.
CREATE UNIQUE INDEX idx_notifications ON @notifications (destination_uuid, sequence);

-- set_order counts how often a run has set an event: branches may set one in another order than they have begun.
CREATE TABLE @workflow_events (
    workflow_uuid TEXT NOT NULL,
    "key" TEXT NOT NULL,
    value TEXT,
    serialization TEXT,
    set_order BIGINT NOT NULL DEFAULT 1,
    PRIMARY KEY (workflow_uuid, "key"),
    CONSTRAINT fk_workflow_events_run FOREIGN KEY (workflow_uuid)
        REFERENCES @workflow_status (workflow_uuid) ON DELETE CASCADE
);

CREATE TABLE @workflow_events_history (
    workflow_uuid TEXT NOT NULL,
    "key" TEXT NOT NULL,
    value TEXT,
    function_id INTEGER NOT NULL,
    serialization TEXT,
    set_order BIGINT NOT NULL DEFAULT 1,
    PRIMARY KEY (workflow_uuid, "key", function_id),
    CONSTRAINT fk_workflow_events_history_run FOREIGN KEY (workflow_uuid)
        REFERENCES @workflow_status (workflow_uuid) ON DELETE CASCADE
);

-- A run that is put away may wait for a message, or for an event of another run: which run's, and of which topic or key.
ALTER TABLE @workflow_waits ADD COLUMN awaited_uuid TEXT;
ALTER TABLE @workflow_waits ADD COLUMN awaited_key TEXT;
