-- Schedules: their settings, and the slots that are due. PostgreSQL and SQLite share this text; MariaDB/MySQL has its own
-- under the same names where it must.
--
-- A schedule's row is held ({hold}: a row lock, empty on SQLite, whose single writer is lock enough) by whoever changes
-- it or fires it. The runs of slots are inserted in the transaction that moves next_due_epoch_ms on, under the condition
-- that it is still the slot that was read: so a slot fires once, whoever comes first.

-- fragment: columns
s.schedule_id, s.schedule_name, s.workflow_name, s.workflow_class_name, s.schedule, s.status, s.context,
s.last_fired_at, s.automatic_backfill, s.cron_timezone, s.queue_name, s.context_serialization, s.passes, s.jitter_ms,
s.overlap, s.version, s.next_due_epoch_ms, s.last_run_id, s.created_at, s.updated_at

-- name: schedule_insert
-- A schedule of this name that is there stays as it is.
INSERT INTO @workflow_schedules (
    schedule_id, schedule_name, workflow_name, workflow_class_name, schedule, context, context_serialization,
    automatic_backfill, cron_timezone, queue_name, passes, jitter_ms, overlap, next_due_epoch_ms,
    created_at, updated_at
) VALUES (
    :schedule_id, :schedule_name, :workflow_name, :workflow_class_name, :schedule, :context, :context_serialization,
    :automatic_backfill, :cron_timezone, :queue_name, :passes, :jitter_ms, :overlap, :next_due,
    {now_ms}, {now_ms}
) {unless_there};

-- fragment: unless_there
ON CONFLICT (schedule_name) DO NOTHING

-- name: schedule_set
UPDATE @workflow_schedules
SET workflow_name = :workflow_name, workflow_class_name = :workflow_class_name, schedule = :schedule,
    context = :context, context_serialization = :context_serialization, automatic_backfill = :automatic_backfill,
    cron_timezone = :cron_timezone, queue_name = :queue_name, passes = :passes, jitter_ms = :jitter_ms,
    overlap = :overlap, next_due_epoch_ms = :next_due, version = version + 1, updated_at = {now_ms}
WHERE schedule_id = :schedule_id;

-- name: schedule_stand
-- Whether it fires, and when next.
UPDATE @workflow_schedules
SET status = :status, next_due_epoch_ms = :next_due, version = version + 1, updated_at = {now_ms}
WHERE schedule_id = :schedule_id;

-- name: schedule_last_run
-- The end of the chain, after slots were fired by hand.
UPDATE @workflow_schedules SET last_run_id = :run_id WHERE schedule_id = :schedule_id;

-- name: schedule_hold
-- The schedule's row, held until commit.
SELECT {columns} FROM @workflow_schedules AS s WHERE s.schedule_name = :name {hold};

-- name: schedules_hold
-- All of them, in the order of their names, so that two that hold them all do not wait for each other.
SELECT {columns} FROM @workflow_schedules AS s ORDER BY s.schedule_name {hold};

-- name: schedules_now
SELECT {now_ms} AS now_ms;

-- name: schedule_get
SELECT {columns} FROM @workflow_schedules AS s WHERE s.schedule_name = :name;

-- name: schedules_list
SELECT {columns} FROM @workflow_schedules AS s
WHERE 1 = 1
[[ AND s.status = :status ]]
[[ AND s.workflow_name = :workflow_name ]]
[[ AND substr(s.schedule_name, 1, :prefix_length) = :prefix ]]
ORDER BY s.schedule_name;

-- name: schedule_delete
DELETE FROM @workflow_schedules WHERE schedule_id = :schedule_id;

-- name: schedules_next
-- When the next slot is due, from the first entry of an index; not of those that are left out here.
SELECT {now_ms} AS now_ms,
    (SELECT min(s.next_due_epoch_ms) FROM @workflow_schedules AS s
     WHERE s.status = 'ACTIVE' AND s.next_due_epoch_ms IS NOT NULL [[ AND {is_not_left_out} ]]) AS slot_ms;

-- fragment: by_due

-- name: schedules_due
-- The schedules of which a slot is due, the longest due first, held until commit; not those that somebody else fires at
-- this moment, nor those that are left out here: so their rows are not held, and others can fire them.
SELECT {columns}, {now_ms} AS now_ms
FROM @workflow_schedules AS s {by_due}
WHERE s.next_due_epoch_ms <= {now_ms} AND s.status = 'ACTIVE' [[ AND {is_not_left_out} ]]
ORDER BY s.next_due_epoch_ms
LIMIT :most
{hold_free};

-- name: versions_of
-- rows: workflow text
-- The versions that have these workflows, the latest last.
SELECT r.workflow, v.version_name
FROM {rows} AS r
JOIN @application_workflows AS h ON h.workflow_name = r.workflow
JOIN @application_versions AS v ON v.version_name = h.version_name
ORDER BY v.version_timestamp, v.created_at;

-- name: schedules_advance
-- rows: id text, was bigint, due bigint, fired text, run_id text
-- From the slot that was read to the next one; fired and run_id are empty where no run was made.
UPDATE @workflow_schedules AS s
SET next_due_epoch_ms = r.due, last_fired_at = COALESCE(r.fired, s.last_fired_at),
    last_run_id = COALESCE(r.run_id, s.last_run_id)
FROM {rows} AS r
WHERE s.schedule_id = r.id AND s.next_due_epoch_ms = r.was AND s.status = 'ACTIVE';

-- name: runs_left
-- rows: id text
-- Those of these runs that have not ended, or ended before all that are before them in their chain.
SELECT r.id AS workflow_uuid FROM {rows} AS r
LEFT JOIN @workflow_status AS w ON w.workflow_uuid = r.id
WHERE w.status IN ('PENDING', 'ENQUEUED', 'DELAYED')
   OR EXISTS (SELECT 1 FROM @workflow_waits AS p WHERE p.workflow_uuid = r.id AND p.wait_kind = 'chain');

-- name: runs_made
-- rows: id text, creation_key text
-- Those of these runs that this transaction has made: the others were there.
SELECT w.workflow_uuid FROM {rows} AS r
JOIN @workflow_status AS w ON w.workflow_uuid = r.id AND w.creation_key = r.creation_key;

-- name: runs_link
-- rows: id text, creation_key text, awaited text
-- A run that this transaction has made waits until another one, and all before that, have ended: as if it were put away.
UPDATE @workflow_status AS w SET wait_kind = 'chain'
FROM {rows} AS r
WHERE w.workflow_uuid = r.id AND w.creation_key = r.creation_key AND w.status || '' = 'DELAYED';

-- name: runs_note_links
-- rows: id text, creation_key text, awaited text
INSERT INTO @workflow_waits (workflow_uuid, wait_kind, wait_key)
SELECT r.id, 'chain', r.awaited
FROM {rows} AS r JOIN @workflow_status AS w ON w.workflow_uuid = r.id AND w.creation_key = r.creation_key
WHERE w.status || '' = 'DELAYED'
ON CONFLICT DO NOTHING;
