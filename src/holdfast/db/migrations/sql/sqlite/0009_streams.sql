-- Streams of runs, the attempts of steps that write to them before their record, and the state of event dispatchers.
CREATE TABLE @streams (
    workflow_uuid TEXT NOT NULL,
    "key" TEXT NOT NULL,
    value TEXT NOT NULL,
    "offset" INTEGER NOT NULL,
    function_id INTEGER NOT NULL,
    serialization TEXT,
    attempt INTEGER,
    entry_no INTEGER,
    PRIMARY KEY (workflow_uuid, "key", "offset"),
    CONSTRAINT fk_streams_run FOREIGN KEY (workflow_uuid)
        REFERENCES @workflow_status (workflow_uuid) ON DELETE CASCADE
);

-- A live attempt: what it has written is thrown away unless its operation is recorded with it.
CREATE TABLE @stream_attempts (
    workflow_uuid TEXT NOT NULL,
    identity TEXT NOT NULL,
    "key" TEXT NOT NULL,
    owner_xid TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    function_id INTEGER NOT NULL,
    first_offset INTEGER NOT NULL,
    PRIMARY KEY (workflow_uuid, identity, "key"),
    CONSTRAINT fk_stream_attempts_run FOREIGN KEY (workflow_uuid)
        REFERENCES @workflow_status (workflow_uuid) ON DELETE CASCADE
) WITHOUT ROWID;

CREATE TABLE @event_dispatch_kv (
    service_name TEXT NOT NULL,
    workflow_fn_name TEXT NOT NULL,
    "key" TEXT NOT NULL,
    value TEXT,
    update_seq NUMERIC(38, 0),
    update_time NUMERIC(38, 15),
    PRIMARY KEY (service_name, workflow_fn_name, "key")
);
