-- The event log, with the last number of each of its streams; and what became of executions.

-- The first event of an append holds its key, the others of it none. The index that finds a stream also finds an
-- append by its key, and holds off one that comes twice.
CREATE TABLE @holdfast_events (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stream_key TEXT COLLATE "C" NOT NULL,
    sequence BIGINT NOT NULL,
    event_type TEXT NOT NULL,
    data TEXT NOT NULL,
    "timestamp" TEXT COLLATE "C" NOT NULL,
    append_key TEXT COLLATE "C",
    CONSTRAINT uq_holdfast_events_sequence UNIQUE (stream_key, sequence)
);

CREATE UNIQUE INDEX idx_holdfast_events_stream ON @holdfast_events (stream_key, append_key);

CREATE INDEX idx_holdfast_events_timestamp ON @holdfast_events ("timestamp");

-- What outlives the events of a stream: its last number, and the time of its last event, which the next one's is not
-- before. Room on its pages keeps a row that changes all the time where its index finds it.
CREATE TABLE @holdfast_event_streams (
    stream_key TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    last_sequence BIGINT NOT NULL,
    last_timestamp TEXT COLLATE "C" NOT NULL
) WITH (fillfactor = 50);

-- Newest first is by position: the order in which they were recorded. It has no index of its own: an end moves its row,
-- and with it every index is written again.
CREATE TABLE @holdfast_executions (
    run_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    workflow_id TEXT COLLATE "C",
    status TEXT COLLATE "C" NOT NULL DEFAULT 'pending',
    parameters TEXT,
    result TEXT,
    error TEXT,
    started_at TEXT COLLATE "C",
    completed_at TEXT COLLATE "C",
    worker_id TEXT,
    metadata_json TEXT,
    "position" BIGINT GENERATED ALWAYS AS IDENTITY,
    start_key TEXT,
    end_key TEXT
);

CREATE INDEX idx_executions_status ON @holdfast_executions (status, "position");

CREATE INDEX idx_executions_workflow ON @holdfast_executions (workflow_id, "position");

CREATE INDEX idx_executions_started ON @holdfast_executions (started_at);
