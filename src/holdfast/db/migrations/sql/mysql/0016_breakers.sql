-- Circuit breakers: one row a breaker, whose record is JSON; beside it stands what is searched by. Every change makes a
-- new stamp, by which those who watch see that there was one.
CREATE TABLE IF NOT EXISTS @holdfast_circuit_breakers (
    service_name VARCHAR(512) NOT NULL PRIMARY KEY,
    state VARCHAR(40) NOT NULL,
    opened_at VARCHAR(40),
    stamp VARCHAR(64) NOT NULL,
    record LONGTEXT NOT NULL,
    updated_at VARCHAR(40) NOT NULL,
    INDEX idx_holdfast_circuit_breakers_open (state, opened_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {key_collation};

-- The last changes of state and of manual control.
CREATE TABLE IF NOT EXISTS @holdfast_circuit_breaker_history (
    service_name VARCHAR(512) NOT NULL,
    epoch BIGINT NOT NULL,
    entry LONGTEXT NOT NULL,
    PRIMARY KEY (service_name, epoch)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {key_collation};

-- What was answered to a change, by its key, so that it can be answered again when the reply was lost; kept for an hour.
CREATE TABLE IF NOT EXISTS @holdfast_circuit_breaker_receipts (
    change_key VARCHAR(64) NOT NULL PRIMARY KEY,
    answer LONGTEXT NOT NULL,
    made_at VARCHAR(40) NOT NULL,
    INDEX idx_holdfast_circuit_breaker_receipts_made_at (made_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {key_collation};
