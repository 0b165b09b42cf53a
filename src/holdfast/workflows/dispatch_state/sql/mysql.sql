-- MariaDB/MySQL sets columns from left to right, and each sees what was set before: so the number by which it is decided
-- comes last.

-- name: dispatch_state_put
INSERT INTO @event_dispatch_kv (service_name, workflow_fn_name, "key", value, update_seq, update_time)
VALUES (
    :service_name, :workflow_fn_name, :state_key, :value, :update_seq,
    COALESCE(:update_time, {now_ms} / 1000.0)
)
ON DUPLICATE KEY UPDATE
    value = CASE
        WHEN VALUES(update_seq) > update_seq OR (VALUES(update_seq) IS NOT NULL AND update_seq IS NULL)
          OR (VALUES(update_seq) IS NULL AND update_seq IS NULL
              AND (update_time IS NULL OR VALUES(update_time) >= update_time))
        THEN VALUES(value) ELSE value END,
    update_time = CASE
        WHEN VALUES(update_seq) > update_seq OR (VALUES(update_seq) IS NOT NULL AND update_seq IS NULL)
          OR (VALUES(update_seq) IS NULL AND update_seq IS NULL
              AND (update_time IS NULL OR VALUES(update_time) >= update_time))
        THEN VALUES(update_time) ELSE update_time END,
    update_seq = CASE
        WHEN VALUES(update_seq) > update_seq OR update_seq IS NULL THEN VALUES(update_seq) ELSE update_seq END;
