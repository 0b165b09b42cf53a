-- How far dispatchers of events have come, by service, function and key. PostgreSQL and SQLite share this text.

-- name: dispatch_state_put
-- A higher update_seq wins, and any wins over none. Where neither has one, the later update_time does.
INSERT INTO @event_dispatch_kv AS o (service_name, workflow_fn_name, "key", value, update_seq, update_time)
VALUES (
    :service_name, :workflow_fn_name, :state_key, :value, CAST(:update_seq AS bigint),
    COALESCE(CAST(:update_time AS double precision), {now_ms} / 1000.0)
)
ON CONFLICT (service_name, workflow_fn_name, "key") DO UPDATE
SET value = excluded.value, update_seq = excluded.update_seq, update_time = excluded.update_time
WHERE excluded.update_seq > o.update_seq
   OR (excluded.update_seq IS NOT NULL AND o.update_seq IS NULL)
   OR (excluded.update_seq IS NULL AND o.update_seq IS NULL
       AND (o.update_time IS NULL OR excluded.update_time >= o.update_time));

-- name: dispatch_state_get
SELECT service_name, workflow_fn_name, "key" AS state_key, value, update_seq, update_time
FROM @event_dispatch_kv
WHERE service_name = :service_name AND workflow_fn_name = :workflow_fn_name AND "key" = :state_key;
