-- name: breakers_locked
-- Locked in the order of their names, whatever the order of the batch: two batches must not wait for each other. The
-- nullable side of a join cannot be locked, so it is locked first.
WITH locked AS MATERIALIZED (
    SELECT b.service_name, b.record FROM @holdfast_circuit_breakers AS b
    WHERE b.service_name IN (SELECT w.service_name FROM {rows} AS w)
    ORDER BY b.service_name
    FOR UPDATE
)
SELECT r.service_name, l.record, {now_iso} AS now
FROM {rows} AS r LEFT JOIN locked AS l ON l.service_name = r.service_name;
