-- Messages to runs, and events of runs. PostgreSQL and SQLite share this text; MariaDB/MySQL has its own under the same
-- names where it must.
--
-- A sender takes its numbers from the counters of its destinations, which it holds until commit, in the order of their
-- ids. The topic of a message without one is stored as '__null__topic__'.

-- name: counters_take
-- rows: id text, messages int
-- The last number of each destination that is there, after so many were taken. The run is looked up without a lock: the
-- foreign key of a new counter finds out if it is deleted meanwhile.
INSERT INTO @message_counters AS c (workflow_uuid, last_sequence)
SELECT r.id, r.messages FROM {rows} AS r
WHERE EXISTS (SELECT 1 FROM @workflow_status AS w WHERE w.workflow_uuid = r.id)
ORDER BY r.id
ON CONFLICT (workflow_uuid) DO UPDATE SET last_sequence = c.last_sequence + excluded.last_sequence
RETURNING workflow_uuid, last_sequence;

-- name: messages_put
-- rows: message_uuid text, destination text, topic text, message text, serialization text, sequence bigint
-- A message whose id is taken is left out: it was sent before.
{messages}
WHERE true
ON CONFLICT (message_uuid) DO NOTHING;

-- fragment: messages
INSERT INTO @notifications (
    message_uuid, destination_uuid, topic, message, created_at_epoch_ms, serialization, consumed, sequence
)
SELECT r.message_uuid, r.destination, r.topic, r.message, {now_ms}, r.serialization, FALSE, r.sequence
FROM {rows} AS r

-- name: messages_look
-- rows: message_uuid text
-- To whom messages were sent, for an unknown commit, or for a sender who found an id taken.
SELECT m.message_uuid, m.destination_uuid FROM {rows} AS r
JOIN @notifications AS m ON m.message_uuid = r.message_uuid;

-- name: messages_next
-- rows: id text, topic text
-- The first message of each topic that was not received. Each is looked up by itself: PostgreSQL would gather all there
-- are, while it takes these for few.
SELECT m.destination_uuid, m.topic, m.message_uuid, m.message, m.serialization
FROM (
    SELECT (
        SELECT n.message_uuid FROM @notifications AS n
        WHERE n.destination_uuid = r.id AND n.topic = r.topic AND n.consumed = FALSE
        ORDER BY n.sequence LIMIT 1
    ) AS message_uuid FROM {rows} AS r
) AS firsts JOIN @notifications AS m ON m.message_uuid = firsts.message_uuid;

-- name: messages_consume
-- rows: message_uuid text, position int
UPDATE @notifications AS m SET consumed = TRUE, consumed_by_function_id = r.position
FROM {rows} AS r
WHERE m.message_uuid = r.message_uuid AND m.consumed = FALSE;

-- name: messages_of
SELECT m.topic, m.message, m.serialization, m.created_at_epoch_ms, m.consumed FROM @notifications AS m
WHERE m.destination_uuid = :workflow_id
ORDER BY m.sequence;

-- name: events_set
-- rows: id text, event text, value text, serialization text, times int
INSERT INTO @workflow_events AS e (workflow_uuid, "key", value, serialization, set_order)
SELECT r.id, r.event, r.value, r.serialization, r.times FROM {rows} AS r
WHERE true
ON CONFLICT (workflow_uuid, "key") DO UPDATE
SET value = excluded.value, serialization = excluded.serialization, set_order = e.set_order + excluded.set_order;

-- name: events_note
-- rows: id text, event text, value text, serialization text, position int, behind int
-- After events_set in the same transaction: so many of those that it has set come behind.
INSERT INTO @workflow_events_history (workflow_uuid, "key", value, serialization, function_id, set_order)
SELECT r.id, r.event, r.value, r.serialization, r.position, e.set_order - r.behind
FROM {rows} AS r JOIN @workflow_events AS e ON e.workflow_uuid = r.id AND e."key" = r.event
WHERE true
ON CONFLICT (workflow_uuid, "key", function_id)
DO UPDATE SET value = excluded.value, serialization = excluded.serialization, set_order = excluded.set_order;

-- name: event_get
SELECT e.value, e.serialization FROM @workflow_events AS e
WHERE e.workflow_uuid = :workflow_id AND e."key" = :event;

-- name: events_of
SELECT e."key", e.value, e.serialization FROM @workflow_events AS e
WHERE e.workflow_uuid = :workflow_id
ORDER BY e."key";

-- name: messages_return
-- rows: id text, cut int
-- What a rewound run had received from a position on waits for it again.
UPDATE @notifications AS m SET consumed = FALSE, consumed_by_function_id = NULL
FROM {rows} AS r
WHERE m.destination_uuid = r.id AND m.consumed_by_function_id >= r.cut;

-- name: waits_recorded
-- rows: id text
-- The waits for a message or an event, and the ends of those with a time limit: see Patience.
SELECT o.workflow_uuid, o.function_id, o.function_name, o.identity
FROM {rows} AS r JOIN @operation_outputs AS o ON o.workflow_uuid = r.id
WHERE o.function_name IN (
    'holdfast.recv', 'holdfast.recv_timeout', 'holdfast.get_event', 'holdfast.get_event_timeout'
);

-- name: ends_forget
-- rows: id text, position int
DELETE FROM @operation_outputs
WHERE (workflow_uuid, function_id) IN (SELECT r.id, r.position FROM {rows} AS r);

-- name: events_cut
-- rows: id text, cut int
-- What a rewound run had set from a position on is forgotten.
DELETE FROM @workflow_events_history
WHERE (workflow_uuid, "key", function_id) IN (
    SELECT h.workflow_uuid, h."key", h.function_id
    FROM {rows} AS r JOIN @workflow_events_history AS h ON h.workflow_uuid = r.id AND h.function_id >= r.cut
);

-- name: events_clear
-- rows: id text
DELETE FROM @workflow_events WHERE workflow_uuid IN (SELECT r.id FROM {rows} AS r);

-- name: events_restore
-- rows: id text
-- The events of runs as their history has them: of each key what was set last.
INSERT INTO @workflow_events (workflow_uuid, "key", value, serialization, set_order)
SELECT l.workflow_uuid, l."key", l.value, l.serialization, l.set_order
FROM (
    SELECT
        h.workflow_uuid, h."key", h.value, h.serialization, h.set_order,
        row_number() OVER (
            PARTITION BY h.workflow_uuid, h."key" ORDER BY h.set_order DESC, h.function_id DESC
        ) AS place
    FROM {rows} AS r JOIN @workflow_events_history AS h ON h.workflow_uuid = r.id
) AS l
WHERE l.place = 1;

-- name: events_copy
-- rows: id text, new_id text
-- What a run had set below a position, for its fork.
INSERT INTO @workflow_events_history (workflow_uuid, "key", value, function_id, serialization, set_order)
SELECT r.new_id, h."key", h.value, h.function_id, h.serialization, h.set_order
FROM {rows} AS r JOIN @workflow_events_history AS h ON h.workflow_uuid = r.id
WHERE h.function_id < :start_step;
