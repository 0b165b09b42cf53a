-- Streams of runs, the attempts of steps that write to them before their record, and the state of event dispatchers.
CREATE TABLE IF NOT EXISTS @streams (
    workflow_uuid VARCHAR(255) NOT NULL,
    "key" VARCHAR(255) NOT NULL,
    value LONGTEXT NOT NULL,
    "offset" INTEGER NOT NULL,
    function_id INTEGER NOT NULL,
    serialization VARCHAR(255),
    attempt INTEGER,
    entry_no INTEGER,
    PRIMARY KEY (workflow_uuid, "key", "offset"),
    CONSTRAINT fk_streams_run FOREIGN KEY (workflow_uuid)
        REFERENCES @workflow_status (workflow_uuid) ON DELETE CASCADE
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {key_collation};

-- A live attempt: what it has written is thrown away unless its operation is recorded with it.
CREATE TABLE IF NOT EXISTS @stream_attempts (
    workflow_uuid VARCHAR(255) NOT NULL,
    identity VARCHAR(255) NOT NULL,
    "key" VARCHAR(255) NOT NULL,
    owner_xid VARCHAR(320) NOT NULL,
    attempt INTEGER NOT NULL,
    function_id INTEGER NOT NULL,
    first_offset INTEGER NOT NULL,
    PRIMARY KEY (workflow_uuid, identity, "key"),
    CONSTRAINT fk_stream_attempts_run FOREIGN KEY (workflow_uuid)
        REFERENCES @workflow_status (workflow_uuid) ON DELETE CASCADE
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {key_collation};

CREATE TABLE IF NOT EXISTS @event_dispatch_kv (
    service_name VARCHAR(255) NOT NULL,
    workflow_fn_name VARCHAR(255) NOT NULL,
    "key" VARCHAR(255) NOT NULL,
    value LONGTEXT,
    update_seq NUMERIC(38, 0),
    update_time NUMERIC(38, 15),
    PRIMARY KEY (service_name, workflow_fn_name, "key")
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {key_collation};
