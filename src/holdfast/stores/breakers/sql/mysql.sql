-- A write that joins begins with what is wanted (STRAIGHT_JOIN) and finds the breakers by their key (FORCE INDEX): a small
-- table would be walked from end to end, and every row on the way waited for that another process has locked.

-- name: breakers_locked
SELECT r.service_name, b.record, {now_iso} AS now
FROM {rows} AS r LEFT JOIN @holdfast_circuit_breakers AS b FORCE INDEX (PRIMARY) ON b.service_name = r.service_name
FOR UPDATE;

-- name: breakers_make
INSERT INTO @holdfast_circuit_breakers (service_name, state, stamp, record, updated_at)
SELECT r.service_name, 'closed', '', '', {now_iso} FROM {rows} AS r ORDER BY r.service_name
ON DUPLICATE KEY UPDATE stamp = @holdfast_circuit_breakers.stamp;

-- name: breakers_write
UPDATE {rows} AS r STRAIGHT_JOIN @holdfast_circuit_breakers AS b FORCE INDEX (PRIMARY)
    ON b.service_name = r.service_name
SET b.state = r.state, b.opened_at = r.opened_at, b.stamp = r.stamp, b.record = r.record, b.updated_at = {now_iso};

-- name: breakers_remove
DELETE b FROM {rows} AS r STRAIGHT_JOIN @holdfast_circuit_breakers AS b FORCE INDEX (PRIMARY)
    ON b.service_name = r.service_name;

-- name: history_cut
DELETE h FROM {rows} AS r STRAIGHT_JOIN @holdfast_circuit_breaker_history AS h FORCE INDEX (PRIMARY)
    ON h.service_name = r.service_name AND h.epoch <= r.epoch;
