-- Checkpoints of conversation threads: the state by its small values, large values once a version, and pending writes.
CREATE TABLE @holdfast_thread_checkpoints (
    thread_id TEXT COLLATE "C" NOT NULL,
    checkpoint_ns TEXT COLLATE "C" NOT NULL,
    checkpoint_id TEXT COLLATE "C" NOT NULL,
    parent_id TEXT,
    run_id TEXT COLLATE "C",
    format TEXT NOT NULL,
    metadata TEXT NOT NULL,
    large TEXT NOT NULL,
    data BYTEA NOT NULL,
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id)
);
CREATE INDEX idx_holdfast_thread_checkpoints_id ON @holdfast_thread_checkpoints (checkpoint_id);
CREATE INDEX idx_holdfast_thread_checkpoints_run ON @holdfast_thread_checkpoints (run_id) WHERE run_id IS NOT NULL;

CREATE TABLE @holdfast_thread_values (
    thread_id TEXT COLLATE "C" NOT NULL,
    checkpoint_ns TEXT COLLATE "C" NOT NULL,
    channel TEXT COLLATE "C" NOT NULL,
    version TEXT COLLATE "C" NOT NULL,
    format TEXT NOT NULL,
    data BYTEA NOT NULL,
    PRIMARY KEY (thread_id, checkpoint_ns, channel, version)
);

CREATE TABLE @holdfast_thread_writes (
    thread_id TEXT COLLATE "C" NOT NULL,
    checkpoint_ns TEXT COLLATE "C" NOT NULL,
    checkpoint_id TEXT COLLATE "C" NOT NULL,
    task_id TEXT COLLATE "C" NOT NULL,
    idx INTEGER NOT NULL,
    channel TEXT NOT NULL,
    format TEXT NOT NULL,
    data BYTEA NOT NULL,
    task_path TEXT NOT NULL,
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx)
);
