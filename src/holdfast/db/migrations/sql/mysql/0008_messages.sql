-- Messages to runs and events of runs.
--
-- Messages to one run are numbered by a counter that a sender locks until commit: a later number never commits first.
-- The counter has a row of its own, so that senders do not lock the row of the run, which its executor writes. A message
-- belongs to its counter, and the counter to its run: the run is looked up once, for the first message, and not again.
CREATE TABLE IF NOT EXISTS @message_counters (
    workflow_uuid VARCHAR(255) NOT NULL PRIMARY KEY,
    last_sequence BIGINT NOT NULL,
    CONSTRAINT fk_message_counters_run FOREIGN KEY (workflow_uuid)
        REFERENCES @workflow_status (workflow_uuid) ON DELETE CASCADE
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {key_collation};

-- What recv() takes next is found by the first index, all messages of a run in their order by the second.
CREATE TABLE IF NOT EXISTS @notifications (
    message_uuid VARCHAR(255) NOT NULL PRIMARY KEY,
    destination_uuid VARCHAR(255) NOT NULL,
    topic VARCHAR(255) NOT NULL,
    message LONGTEXT,
    created_at_epoch_ms BIGINT NOT NULL,
    serialization VARCHAR(255),
    consumed BOOLEAN NOT NULL DEFAULT FALSE,
    consumed_by_function_id INTEGER,
    sequence BIGINT NOT NULL,
    INDEX idx_workflow_topic (destination_uuid, topic, consumed, sequence),
    UNIQUE INDEX idx_notifications (destination_uuid, sequence),
    CONSTRAINT fk_notifications_counter FOREIGN KEY (destination_uuid)
        REFERENCES @message_counters (workflow_uuid) ON DELETE CASCADE
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {key_collation};

-- set_order counts how often a run has set an event: branches may set one in another order than they have begun.
CREATE TABLE IF NOT EXISTS @workflow_events (
    workflow_uuid VARCHAR(255) NOT NULL,
    "key" VARCHAR(255) NOT NULL,
    value LONGTEXT,
    serialization VARCHAR(255),
    set_order BIGINT NOT NULL DEFAULT 1,
    PRIMARY KEY (workflow_uuid, "key"),
    CONSTRAINT fk_workflow_events_run FOREIGN KEY (workflow_uuid)
        REFERENCES @workflow_status (workflow_uuid) ON DELETE CASCADE
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {key_collation};

CREATE TABLE IF NOT EXISTS @workflow_events_history (
    workflow_uuid VARCHAR(255) NOT NULL,
    "key" VARCHAR(255) NOT NULL,
    value LONGTEXT,
    function_id INTEGER NOT NULL,
    serialization VARCHAR(255),
    set_order BIGINT NOT NULL DEFAULT 1,
    PRIMARY KEY (workflow_uuid, "key", function_id),
    CONSTRAINT fk_workflow_events_history_run FOREIGN KEY (workflow_uuid)
        REFERENCES @workflow_status (workflow_uuid) ON DELETE CASCADE
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {key_collation};

-- A run that is put away may wait for a message, or for an event of another run: which run's, and of which topic or key.
ALTER TABLE @workflow_waits ADD COLUMN awaited_uuid VARCHAR(255);
ALTER TABLE @workflow_waits ADD COLUMN awaited_key VARCHAR(255);
