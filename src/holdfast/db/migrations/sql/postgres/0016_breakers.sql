-- Circuit breakers: one row a breaker, whose record is JSON; beside it stands what is searched by. Every change makes a
-- new stamp, by which those who watch see that there was one.
CREATE TABLE @holdfast_circuit_breakers (
    service_name TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    state TEXT COLLATE "C" NOT NULL,
    opened_at TEXT COLLATE "C",
    stamp TEXT NOT NULL,
    record TEXT NOT NULL,
    updated_at TEXT NOT NULL
);

CREATE INDEX idx_holdfast_circuit_breakers_open ON @holdfast_circuit_breakers (opened_at) WHERE state = 'open';

-- The last changes of state and of manual control.
CREATE TABLE @holdfast_circuit_breaker_history (
    service_name TEXT COLLATE "C" NOT NULL,
    epoch BIGINT NOT NULL,
    entry TEXT NOT NULL,
    PRIMARY KEY (service_name, epoch)
);

-- What was answered to a change, by its key, so that it can be answered again when the reply was lost; kept for an hour.
CREATE TABLE @holdfast_circuit_breaker_receipts (
    change_key TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    answer TEXT NOT NULL,
    made_at TEXT COLLATE "C" NOT NULL
);

CREATE INDEX idx_holdfast_circuit_breaker_receipts_made_at ON @holdfast_circuit_breaker_receipts (made_at);
