-- Runs that are put away while all their branches wait durably. PostgreSQL and SQLite share this text; MariaDB/MySQL has
-- its own under the same names.

-- name: run_put_away
-- rows: id text, token text, until_ms bigint, kind text
-- PENDING -> DELAYED by the holder of the token, attempts unchanged. The token stays behind as the key of this change.
UPDATE @workflow_status AS w
SET status = 'DELAYED', owner_xid = NULL, incarnation = NULL, updated_at = {now_ms}, change_key = r.token,
    delay_until_epoch_ms = r.until_ms, wait_kind = r.kind, queue_name = COALESCE(w.queue_name, :internal_queue)
FROM {rows} AS r
WHERE w.workflow_uuid = r.id AND w.owner_xid = r.token AND w.status || '' = 'PENDING';

-- name: waits_forget
-- rows: id text, token text, until_ms bigint, kind text
-- What the run waited for when it was put away before, where run_put_away of the same transaction has taken place.
DELETE FROM @workflow_waits
WHERE wait_kind <> 'chain' AND workflow_uuid IN (
    SELECT r.id FROM {rows} AS r JOIN @workflow_status AS w ON w.workflow_uuid = r.id AND w.change_key = r.token
);

-- name: waits_note
-- rows: id text, token text, kind text, awaited text, awaited_uuid text, awaited_key text
-- What the run waits for, where run_put_away of the same transaction has taken place.
INSERT INTO @workflow_waits (workflow_uuid, wait_kind, wait_key, awaited_uuid, awaited_key)
SELECT r.id, r.kind, r.awaited, r.awaited_uuid, r.awaited_key
FROM {rows} AS r JOIN @workflow_status AS w ON w.workflow_uuid = r.id AND w.change_key = r.token
WHERE w.status || '' = 'DELAYED'
ON CONFLICT DO NOTHING;

-- fragment: over
-- Of a wait s: whether its run w is still put away, and whether what it waits for has happened; t is the run whose result
-- it waits for, or that is before it in its chain. A link of a chain is kept until all before it have ended, whatever has
-- become of its run.
CASE WHEN (w.status = 'DELAYED' AND w.wait_kind IS NOT NULL) OR s.wait_kind = 'chain' THEN 1 ELSE 0 END AS waits,
CASE s.wait_kind
    WHEN 'result' THEN
        CASE WHEN t.status IS NULL
               OR t.status IN ('SUCCESS', 'ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED')
             THEN 1 ELSE 0 END
    WHEN 'chain' THEN CASE WHEN {all_before_ended} THEN 1 ELSE 0 END
    WHEN 'message' THEN
        CASE WHEN EXISTS (
            SELECT 1 FROM @notifications AS m
            WHERE m.destination_uuid = s.awaited_uuid AND m.topic = s.awaited_key AND m.consumed = FALSE
        ) THEN 1 ELSE 0 END
    WHEN 'event' THEN
        CASE WHEN EXISTS (
            SELECT 1 FROM @workflow_events AS e
            WHERE e.workflow_uuid = s.awaited_uuid AND e."key" = s.awaited_key
        ) THEN 1 ELSE 0 END
    ELSE 0
END AS happened

-- fragment: all_before_ended
-- Of a link s: the run before it, t, has ended and has no link any more, so that all before that one have ended, too. A
-- run that was cancelled while it waited has its link still, and so has one that was deleted since.
(t.status IS NULL OR t.status IN ('SUCCESS', 'ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED'))
AND NOT EXISTS (SELECT 1 FROM @workflow_waits AS p WHERE p.workflow_uuid = s.wait_key AND p.wait_kind = 'chain')

-- name: waits_look
-- The next waits in the order of their keys, and whether they are over: the waiter is not put away any more, or what
-- it waits for has happened.
SELECT s.workflow_uuid, s.wait_kind, s.wait_key, {over}
FROM (
    SELECT i.workflow_uuid, i.wait_kind, i.wait_key, i.awaited_uuid, i.awaited_key FROM @workflow_waits AS i
    WHERE (i.wait_kind, i.wait_key, i.workflow_uuid) > (:after_kind, :after_key, :after_run)
    ORDER BY i.wait_kind, i.wait_key, i.workflow_uuid
    LIMIT :most
) AS s
LEFT JOIN @workflow_status AS w ON w.workflow_uuid = s.workflow_uuid
LEFT JOIN @workflow_status AS t ON t.workflow_uuid = s.wait_key AND s.wait_kind IN ('result', 'chain')
ORDER BY s.wait_kind, s.wait_key, s.workflow_uuid;

-- name: waits_look_of
-- rows: id text
-- The same, for the waits of some runs.
SELECT s.workflow_uuid, s.wait_kind, s.wait_key, {over}
FROM {rows} AS r
JOIN @workflow_waits AS s ON s.workflow_uuid = r.id
LEFT JOIN @workflow_status AS w ON w.workflow_uuid = s.workflow_uuid
LEFT JOIN @workflow_status AS t ON t.workflow_uuid = s.wait_key AND s.wait_kind IN ('result', 'chain');

-- name: things_look
-- rows: kind text, id text, thing text
-- Which of the messages and events that runs and clients wait for are there.
SELECT r.kind, r.id, r.thing FROM {rows} AS r
WHERE EXISTS (
    SELECT 1 FROM @notifications AS m
    WHERE r.kind = 'message' AND m.destination_uuid = r.id AND m.topic = r.thing AND m.consumed = FALSE
) OR EXISTS (
    SELECT 1 FROM @workflow_events AS e
    WHERE r.kind = 'event' AND e.workflow_uuid = r.id AND e."key" = r.thing
);

-- name: waits_of
-- rows: kind text, awaited text
-- Who is put away and waits for what has just happened; of those in a chain, who is next.
SELECT s.workflow_uuid, s.wait_kind, s.wait_key FROM {rows} AS r
JOIN @workflow_waits AS s ON s.wait_kind = r.kind AND s.wait_key = r.awaited
LEFT JOIN @workflow_status AS t ON t.workflow_uuid = s.wait_key AND s.wait_kind = 'chain'
WHERE s.wait_kind <> 'chain' OR ({all_before_ended});

-- name: waits_wake
-- rows: id text
-- DELAYED -> ENQUEUED for runs whose wait is over. They keep its kind, by which their claim is no new start.
UPDATE @workflow_status AS w
SET status = 'ENQUEUED', delay_until_epoch_ms = NULL, updated_at = {now_ms}
FROM {rows} AS r
WHERE w.workflow_uuid = r.id AND w.status || '' = 'DELAYED' AND w.wait_kind IS NOT NULL;

-- name: waits_clear
-- rows: id text, kind text, awaited text
DELETE FROM @workflow_waits
WHERE (workflow_uuid, wait_kind, wait_key) IN (
    SELECT r.id, r.kind, r.awaited FROM {rows} AS r
    LEFT JOIN @workflow_status AS w
        ON w.workflow_uuid = r.id AND w.status || '' = 'DELAYED' AND w.wait_kind IS NOT NULL
    WHERE w.workflow_uuid IS NULL
);
