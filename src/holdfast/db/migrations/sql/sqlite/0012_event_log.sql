-- The event log, with the last number of each of its streams; and what became of executions.

-- The first event of an append holds its key, the others of it none. The index that finds a stream also finds an
-- append by its key, and holds off one that comes twice.
CREATE TABLE @holdfast_events (
    id INTEGER PRIMARY KEY,
    stream_key TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    event_type TEXT NOT NULL,
    data TEXT NOT NULL,
    "timestamp" TEXT NOT NULL,
    append_key TEXT,
    CONSTRAINT uq_holdfast_events_sequence UNIQUE (stream_key, sequence)
);

CREATE UNIQUE INDEX idx_holdfast_events_stream ON @holdfast_events (stream_key, append_key);

CREATE INDEX idx_holdfast_events_timestamp ON @holdfast_events ("timestamp");

-- What outlives the events of a stream: its last number, and the time of its last event, which the next one's is not
-- before.
CREATE TABLE @holdfast_event_streams (
    stream_key TEXT NOT NULL PRIMARY KEY,
    last_sequence INTEGER NOT NULL,
    last_timestamp TEXT NOT NULL
) WITHOUT ROWID;

-- The first event of an append raises its stream, unless that was done for the whole append.
CREATE TRIGGER raise_event_stream AFTER INSERT ON @holdfast_events WHEN NEW.append_key IS NOT NULL
BEGIN
    INSERT INTO @holdfast_event_streams (stream_key, last_sequence, last_timestamp)
    VALUES (NEW.stream_key, NEW.sequence, NEW."timestamp")
    ON CONFLICT (stream_key) DO UPDATE
    SET last_sequence = excluded.last_sequence, last_timestamp = excluded.last_timestamp
    WHERE excluded.last_sequence > last_sequence;
END;

-- Newest first is by rowid, which ends every index here.
CREATE TABLE @holdfast_executions (
    run_id TEXT NOT NULL PRIMARY KEY,
    workflow_id TEXT,
    status TEXT NOT NULL DEFAULT 'pending',
    parameters TEXT,
    result TEXT,
    error TEXT,
    started_at TEXT,
    completed_at TEXT,
    worker_id TEXT,
    metadata_json TEXT,
    start_key TEXT,
    end_key TEXT
);

CREATE INDEX idx_executions_status ON @holdfast_executions (status);

CREATE INDEX idx_executions_workflow ON @holdfast_executions (workflow_id);

CREATE INDEX idx_executions_started ON @holdfast_executions (started_at);
