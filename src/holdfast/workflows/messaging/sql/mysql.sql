-- MariaDB/MySQL: a write that joins begins with what is wanted (STRAIGHT_JOIN) and finds its rows by a key (FORCE INDEX),
-- so that it locks nothing else on the way.

-- name: counters_take
INSERT INTO @message_counters (workflow_uuid, last_sequence)
SELECT r.id, r.messages FROM {rows} AS r
WHERE EXISTS (SELECT 1 FROM @workflow_status AS w WHERE w.workflow_uuid = r.id)
ORDER BY r.id
ON DUPLICATE KEY UPDATE last_sequence = @message_counters.last_sequence + VALUES(last_sequence);
SELECT c.workflow_uuid, c.last_sequence FROM {rows} AS r JOIN @message_counters AS c ON c.workflow_uuid = r.id;

-- name: messages_put
{messages}
ON DUPLICATE KEY UPDATE message_uuid = @notifications.message_uuid;
SELECT m.message_uuid FROM {rows} AS r
JOIN @notifications AS m ON m.message_uuid = r.message_uuid AND m.destination_uuid = r.destination;

-- name: messages_consume
UPDATE {rows} AS r STRAIGHT_JOIN @notifications AS m FORCE INDEX (PRIMARY) ON m.message_uuid = r.message_uuid
SET m.consumed = TRUE, m.consumed_by_function_id = r.position
WHERE m.consumed = FALSE;

-- name: events_set
INSERT INTO @workflow_events (workflow_uuid, "key", value, serialization, set_order)
SELECT r.id, r.event, r.value, r.serialization, r.times FROM {rows} AS r
ON DUPLICATE KEY UPDATE value = VALUES(value), serialization = VALUES(serialization),
    set_order = @workflow_events.set_order + VALUES(set_order);

-- name: events_note
INSERT INTO @workflow_events_history (workflow_uuid, "key", value, serialization, function_id, set_order)
SELECT r.id, r.event, r.value, r.serialization, r.position, e.set_order - r.behind
FROM {rows} AS r STRAIGHT_JOIN @workflow_events AS e FORCE INDEX (PRIMARY)
    ON e.workflow_uuid = r.id AND e."key" = r.event
ON DUPLICATE KEY UPDATE value = VALUES(value), serialization = VALUES(serialization), set_order = VALUES(set_order);

-- name: messages_return
UPDATE {rows} AS r STRAIGHT_JOIN @notifications AS m FORCE INDEX (idx_notifications) ON m.destination_uuid = r.id
SET m.consumed = FALSE, m.consumed_by_function_id = NULL
WHERE m.consumed_by_function_id >= r.cut;

-- name: ends_forget
DELETE o FROM {rows} AS r STRAIGHT_JOIN @operation_outputs AS o FORCE INDEX (PRIMARY)
    ON o.workflow_uuid = r.id AND o.function_id = r.position;

-- name: events_cut
DELETE h FROM {rows} AS r STRAIGHT_JOIN @workflow_events_history AS h FORCE INDEX (PRIMARY)
    ON h.workflow_uuid = r.id AND h.function_id >= r.cut;

-- name: events_clear
DELETE e FROM {rows} AS r STRAIGHT_JOIN @workflow_events AS e FORCE INDEX (PRIMARY) ON e.workflow_uuid = r.id;
