-- Circuit breakers. PostgreSQL and SQLite share this text save what must differ; MariaDB/MySQL has its own under the same
-- names.

-- name: breakers_locked
-- rows: service_name text
-- Each breaker that is wanted, locked until commit, and the time; without a record if it is not there. SQLite has one
-- writer, which needs no lock.
SELECT r.service_name, b.record, {now_iso} AS now
FROM {rows} AS r LEFT JOIN @holdfast_circuit_breakers AS b ON b.service_name = r.service_name;

-- name: breakers_make
-- rows: service_name text
-- A place for breakers that are about to be made, locked until commit; their records follow in the same transaction.
INSERT INTO @holdfast_circuit_breakers (service_name, state, stamp, record, updated_at)
SELECT r.service_name, 'closed', '', '', {now_iso} FROM {rows} AS r ORDER BY r.service_name
ON CONFLICT DO NOTHING;

-- name: breakers_write
-- rows: service_name text, state text, opened_at text, stamp text, record text
-- What became of breakers that this transaction has locked.
UPDATE @holdfast_circuit_breakers AS b
SET state = r.state, opened_at = r.opened_at, stamp = r.stamp, record = r.record, updated_at = {now_iso}
FROM {rows} AS r
WHERE b.service_name = r.service_name;

-- name: breakers_remove
-- rows: service_name text
DELETE FROM @holdfast_circuit_breakers WHERE service_name IN (SELECT r.service_name FROM {rows} AS r);

-- name: history_add
-- rows: service_name text, epoch bigint, entry text
INSERT INTO @holdfast_circuit_breaker_history (service_name, epoch, entry)
SELECT r.service_name, r.epoch, r.entry FROM {rows} AS r;

-- name: history_cut
-- rows: service_name text, epoch bigint
-- Entries up to an epoch.
DELETE FROM @holdfast_circuit_breaker_history
WHERE EXISTS (
    SELECT 1 FROM {rows} AS r
    WHERE r.service_name = @holdfast_circuit_breaker_history.service_name
      AND r.epoch >= @holdfast_circuit_breaker_history.epoch
);

-- name: receipts_add
-- rows: change_key text, answer text
INSERT INTO @holdfast_circuit_breaker_receipts (change_key, answer, made_at)
SELECT r.change_key, r.answer, {now_iso} FROM {rows} AS r;

-- name: receipts_find
-- rows: change_key text
SELECT s.change_key, s.answer FROM {rows} AS r
JOIN @holdfast_circuit_breaker_receipts AS s ON s.change_key = r.change_key;

-- name: receipts_forget
-- Receipts of longer ago than anybody asks for.
DELETE FROM @holdfast_circuit_breaker_receipts WHERE made_at < {later_iso};

-- name: breaker_get
SELECT b.record FROM @holdfast_circuit_breakers AS b WHERE b.service_name = :service_name;

-- name: breakers_all
SELECT b.record FROM @holdfast_circuit_breakers AS b ORDER BY b.service_name;

-- name: breakers_open
-- The one that has been open longest first; one of which that is not known before all others.
SELECT b.record FROM @holdfast_circuit_breakers AS b WHERE b.state = 'open'
ORDER BY CASE WHEN b.opened_at IS NULL THEN 0 ELSE 1 END, b.opened_at, b.service_name
LIMIT :most;

-- name: breakers_changed
-- rows: service_name text, stamp text
-- Those of the breakers that are not as they were when they had this stamp.
SELECT r.service_name, b.stamp, b.record, {now_iso} AS now
FROM {rows} AS r LEFT JOIN @holdfast_circuit_breakers AS b ON b.service_name = r.service_name
WHERE COALESCE(b.stamp, '-') <> r.stamp;

-- name: history_of
SELECT h.entry FROM @holdfast_circuit_breaker_history AS h
WHERE h.service_name = :service_name ORDER BY h.epoch DESC LIMIT :most;
