-- Looking at runs. Nothing here writes, and nothing here waits for a lock. Every [[ part ]] stands only when what it
-- asks for is given, so that the database plans for the filters there are, and for no others.
--
-- A run is in one of two halves. The one half is PENDING: as many runs as are being executed now, found by the index of
-- their owners. The other half is all the rest, with indexes that begin with a filter's column, go on with created_at,
-- and leave PENDING runs out: so a run that is started and finished is written to each of them once and not twice. Both
-- halves are asked for a page, and the page is made of the two.

-- fragment: columns
-- What is shown of a run; the payloads only if they are wanted, since they can be large.
w.workflow_uuid, w.status, w.name, w.class_name, w.config_name, w.serialization, w.output_serialization,
w.authenticated_user, w.assumed_role, w.authenticated_roles, w.executor_id, w.application_version, w.application_id,
w.created_at, w.updated_at, w.started_at_epoch_ms, w.completed_at, w.parent_workflow_id, w.forked_from,
w.was_forked_from, w.generation, w.recovery_attempts, w.executions, w.retries, w.queue_name, w.deduplication_id,
w.priority, w.queue_partition_key, w.delay_until_epoch_ms, w.workflow_timeout_ms, w.workflow_deadline_epoch_ms,
w.attributes
[[ load_input? , w.inputs ]]
[[ load_output? , w.output, w.error ]]

-- fragment: narrowing
-- What an index leads to. It is added to the filters only when it is known that it leads to few runs; the filters
-- themselves are written so that no index is chosen for them. Otherwise an index might be chosen that leads to most of
-- the table, all of which would have to be sorted. Two ends make a narrow range to PostgreSQL while it knows nothing of a
-- table; one end would be a third of it.
[[ AND w.workflow_uuid >= :prefix_from ]]
[[ AND w.workflow_uuid < :prefix_to ]]
[[ AND w.updated_at >= :touched_from AND w.updated_at < 9007199254740992 ]]
[[ AND {attributes} ]]
[[ {listed_attribute} ]]
[[ AND w.recovery_attempts + 0 > 0 AND w.recovery_attempts >= :attempts_from ]]
[[ children_only? AND w.parent_workflow_id IS NOT NULL ]]
[[ AND w.status {in_list} :status_list {list_end} ]]
[[ AND w.name {in_list} :name_list {list_end} ]]
[[ AND w.class_name {in_list} :class_name_list {list_end} ]]
[[ AND w.config_name {in_list} :config_name_list {list_end} ]]
[[ AND w.application_version {in_list} :application_version_list {list_end} ]]
[[ AND w.application_id <> 'holdfast' AND w.application_id {in_list} :application_id_list {list_end} ]]
[[ AND w.executor_id {in_list} :executor_id_list {list_end} ]]
[[ AND w.authenticated_user {in_list} :authenticated_user_list {list_end} ]]
[[ AND w.assumed_role {in_list} :assumed_role_list {list_end} ]]
[[ AND w.queue_name {in_list} :queue_name_list {list_end} ]]
[[ AND w.queue_partition_key {in_list} :queue_partition_key_list {list_end} ]]
[[ AND w.deduplication_id {in_list} :deduplication_id_list {list_end} ]]
[[ AND w.parent_workflow_id {in_list} :parent_workflow_id_list {list_end} ]]
[[ AND w.forked_from {in_list} :forked_from_list {list_end} ]]

-- fragment: filters
-- Everything but the status. One value is compared with =, and can use its index: it is in the order of a listing.
{narrowing}
[[ AND w.created_at < :made_before ]]
[[ AND w.workflow_uuid = :workflow_id ]]
[[ AND w.workflow_uuid {in_list} :workflow_id_list {list_end} ]]
[[ AND substr(w.workflow_uuid, 1, :prefix_length) = :prefix ]]
[[ AND w.name = :name ]]
[[ AND COALESCE(w.name, NULL) {in_list} :name_any {list_end} ]]
[[ AND w.class_name = :class_name ]]
[[ AND COALESCE(w.class_name, NULL) {in_list} :class_name_any {list_end} ]]
[[ AND w.config_name = :config_name ]]
[[ AND COALESCE(w.config_name, NULL) {in_list} :config_name_any {list_end} ]]
[[ AND w.application_version = :application_version ]]
[[ AND COALESCE(w.application_version, NULL) {in_list} :application_version_any {list_end} ]]
[[ AND w.application_id = :application_id ]]
[[ has_application? AND w.application_id <> 'holdfast' ]]
[[ AND COALESCE(w.application_id, NULL) {in_list} :application_id_any {list_end} ]]
[[ AND w.executor_id = :executor_id ]]
[[ AND COALESCE(w.executor_id, NULL) {in_list} :executor_id_any {list_end} ]]
[[ AND w.authenticated_user = :authenticated_user ]]
[[ AND COALESCE(w.authenticated_user, NULL) {in_list} :authenticated_user_any {list_end} ]]
[[ AND w.assumed_role = :assumed_role ]]
[[ AND COALESCE(w.assumed_role, NULL) {in_list} :assumed_role_any {list_end} ]]
[[ AND w.queue_name = :queue_name ]]
[[ AND COALESCE(w.queue_name, NULL) {in_list} :queue_name_any {list_end} ]]
[[ AND w.queue_partition_key = :queue_partition_key ]]
[[ AND COALESCE(w.queue_partition_key, NULL) {in_list} :queue_partition_key_any {list_end} ]]
[[ AND w.deduplication_id = :deduplication_id ]]
[[ AND COALESCE(w.deduplication_id, NULL) {in_list} :deduplication_id_any {list_end} ]]
[[ AND w.parent_workflow_id = :parent_workflow_id ]]
[[ AND COALESCE(w.parent_workflow_id, NULL) {in_list} :parent_workflow_id_any {list_end} ]]
[[ AND w.forked_from = :forked_from ]]
[[ AND COALESCE(w.forked_from, NULL) {in_list} :forked_from_any {list_end} ]]
[[ AND w.priority = :priority ]]
[[ AND {priority_text} {in_list} :priority_any {list_end} ]]
[[ has_priority? AND w.priority <> 0 ]]
[[ was_forked? AND w.was_forked_from ]]
[[ never_forked? AND NOT w.was_forked_from ]]
[[ is_fork? AND {forked_text} IS NOT NULL ]]
[[ is_original? AND w.forked_from IS NULL ]]
[[ has_parent? AND COALESCE(w.parent_workflow_id, NULL) IS NOT NULL ]]
[[ has_none? AND w.parent_workflow_id IS NULL ]]
[[ has_deadline? AND w.workflow_deadline_epoch_ms IS NOT NULL ]]
[[ is_timeless? AND w.workflow_deadline_epoch_ms IS NULL ]]
[[ queues_only? AND COALESCE(w.queue_name, NULL) IS NOT NULL ]]
[[ AND w.recovery_attempts + 0 >= :min_recovery_attempts ]]
[[ AND w.created_at >= :created_after ]]
[[ AND w.created_at < :created_before ]]
[[ AND w.started_at_epoch_ms >= :started_after ]]
[[ AND w.started_at_epoch_ms < :started_before ]]
[[ AND w.completed_at >= :completed_after ]]
[[ AND w.completed_at < :completed_before ]]
[[ AND w.updated_at + 0 >= :updated_after ]]
[[ AND w.updated_at + 0 < :updated_before ]]
[[ AND {attributes_any} ]]
[[ AND (
    ({position}(COALESCE(w.serialization, ''), '+') = 0
     AND ({position}(w.inputs, :search) > 0 OR {position}(w.inputs, :search_quoted) > 0))
    OR ({position}(COALESCE(w.output_serialization, ''), '+') = 0
        AND ({position}(w.output, :search) > 0 OR {position}(w.output, :search_quoted) > 0
             OR {position}(w.error, :search) > 0 OR {position}(w.error, :search_quoted) > 0))
) ]]

-- fragment: the_rest
FROM @workflow_status AS w
WHERE w.status <> 'PENDING'
[[ queues_only? AND {status_text} IN ('ENQUEUED', 'DELAYED') ]]
[[ AND w.status = :status ]]
[[ AND COALESCE(w.status, NULL) {in_list} :status_any {list_end} ]]
{filters}

-- fragment: the_pending
-- + 0 keeps the database from walking created_at through all the others in search of these.
FROM @workflow_status AS w {by_owner}
WHERE w.status = 'PENDING'
{filters}

-- name: runs_newest
{planned}
SELECT * FROM (
    SELECT {columns} {the_rest}
    [[ AND w.created_at <= :beyond AND (w.created_at < :beyond OR w.workflow_uuid < :beyond_id) ]]
    [[ AND w.created_at >= :until AND (w.created_at > :until OR w.workflow_uuid >= :until_id) ]]
    ORDER BY w.created_at [[ narrow? + 0 ]] DESC, w.workflow_uuid DESC LIMIT :most
) AS rest
[[ pending? UNION ALL SELECT * FROM (
    SELECT {columns} {the_pending}
    [[ AND w.created_at <= :beyond AND (w.created_at < :beyond OR w.workflow_uuid < :beyond_id) ]]
    [[ AND w.created_at >= :until AND (w.created_at > :until OR w.workflow_uuid >= :until_id) ]]
    ORDER BY w.created_at + 0 DESC, w.workflow_uuid DESC LIMIT :most
) AS pending ]]
ORDER BY created_at DESC, workflow_uuid DESC LIMIT :most;

-- name: runs_oldest
{planned}
SELECT * FROM (
    SELECT {columns} {the_rest}
    [[ AND w.created_at >= :beyond AND (w.created_at > :beyond OR w.workflow_uuid > :beyond_id) ]]
    [[ AND w.created_at <= :until AND (w.created_at < :until OR w.workflow_uuid <= :until_id) ]]
    ORDER BY w.created_at [[ narrow? + 0 ]], w.workflow_uuid LIMIT :most
) AS rest
[[ pending? UNION ALL SELECT * FROM (
    SELECT {columns} {the_pending}
    [[ AND w.created_at >= :beyond AND (w.created_at > :beyond OR w.workflow_uuid > :beyond_id) ]]
    [[ AND w.created_at <= :until AND (w.created_at < :until OR w.workflow_uuid <= :until_id) ]]
    ORDER BY w.created_at + 0, w.workflow_uuid LIMIT :most
) AS pending ]]
ORDER BY created_at, workflow_uuid LIMIT :most;

-- name: stretch_newest
-- The last of the next :most runs: so far a page looks for a text in payloads, which no index knows. With a column that
-- is in no index, and a limit that it does not know, SQLite follows the order; else it would read an index, and sort it.
{planned}
SELECT w.created_at, w.workflow_uuid, w.executions {the_rest}
[[ AND w.created_at <= :beyond AND (w.created_at < :beyond OR w.workflow_uuid < :beyond_id) ]]
ORDER BY w.created_at [[ narrow? + 0 ]] DESC, w.workflow_uuid DESC LIMIT :one OFFSET :most;

-- name: stretch_oldest
{planned}
SELECT w.created_at, w.workflow_uuid, w.executions {the_rest}
[[ AND w.created_at >= :beyond AND (w.created_at > :beyond OR w.workflow_uuid > :beyond_id) ]]
ORDER BY w.created_at [[ narrow? + 0 ]], w.workflow_uuid LIMIT :one OFFSET :most;

-- name: runs_probe
-- How many runs an index would lead to, up to :most: whether they are few enough to be sorted.
{probed}
SELECT count(*) AS found FROM (
    SELECT 1 AS one FROM @workflow_status AS w
    WHERE true [[ partial? AND w.status <> 'PENDING' ]] {narrowing}
    LIMIT :most
) AS some_runs;

-- name: runs_sample
-- How many of the runs that were made last have the attributes: whether those that have them are met on the way.
SELECT count(*) AS found FROM (
    SELECT w.attributes FROM @workflow_status AS w
    WHERE w.status <> 'PENDING' ORDER BY w.created_at DESC LIMIT :most
) AS w WHERE {attributes_any};

-- name: runs_count
-- A bucket is a stretch of created_at. GROUP BY ends with a constant, for the case that there is nothing to group by.
SELECT
    [[ by_status? w.status, ]]
    [[ by_name? w.name, ]]
    [[ by_queue_name? w.queue_name, ]]
    [[ by_application_version? w.application_version, ]]
    [[ by_executor_id? w.executor_id, ]]
    [[ by_class_name? w.class_name, ]]
    [[ by_authenticated_user? w.authenticated_user, ]]
    [[ w.created_at - w.created_at % :bucket_ms AS bucket, ]]
    count(*) AS runs, min(w.created_at) AS oldest, max(w.created_at) AS newest
FROM @workflow_status AS w
WHERE true
[[ queues_only? AND w.status IN ('ENQUEUED', 'DELAYED', 'PENDING') ]]
[[ AND w.status = :status ]]
[[ AND COALESCE(w.status, NULL) {in_list} :status_any {list_end} ]]
{filters}
GROUP BY
    [[ by_status? w.status, ]]
    [[ by_name? w.name, ]]
    [[ by_queue_name? w.queue_name, ]]
    [[ by_application_version? w.application_version, ]]
    [[ by_executor_id? w.executor_id, ]]
    [[ by_class_name? w.class_name, ]]
    [[ by_authenticated_user? w.authenticated_user, ]]
    [[ w.created_at - w.created_at % :bucket_ms, ]]
    1 = 1;

-- name: run_get
SELECT {columns} FROM @workflow_status AS w WHERE w.workflow_uuid = :workflow_id;

-- name: steps_list
SELECT
    o.workflow_uuid, o.function_id, o.function_name, o.identity, o.child_workflow_id, o.started_at_epoch_ms,
    o.completed_at_epoch_ms, o.serialization
    [[ load_output? , o.output, o.error ]]
FROM @operation_outputs AS o
WHERE o.workflow_uuid = :workflow_id
ORDER BY o.function_id
LIMIT :most OFFSET :skipped;

-- name: executors_list
SELECT
    incarnation, executor_id, hostname, pid, application_version, queues, beat_seq, lease_ms, stalled_since,
    started_at, last_beat_at, {now_ms} - last_beat_at AS silent_ms
FROM @executors ORDER BY started_at, incarnation;

-- name: run_export
-- Everything but who executes it, and the keys of past writes.
SELECT
    workflow_uuid, status, name, class_name, config_name, inputs, output, error, serialization, output_serialization,
    authenticated_user, assumed_role, authenticated_roles, executor_id, created_at, updated_at, started_at_epoch_ms,
    completed_at, application_version, application_id, parent_workflow_id, forked_from, was_forked_from, executions,
    generation, fingerprint, attributes, queue_name, deduplication_id, priority, queue_partition_key,
    recovery_attempts, delay_until_epoch_ms, workflow_timeout_ms, workflow_deadline_epoch_ms, retries,
    is_debounced, debounce_deadline_epoch_ms
FROM @workflow_status WHERE workflow_uuid = :workflow_id;

-- name: steps_export
SELECT
    function_id, function_name, identity, fingerprint, output, error, child_workflow_id, serialization,
    started_at_epoch_ms, completed_at_epoch_ms
FROM @operation_outputs WHERE workflow_uuid = :workflow_id ORDER BY function_id;

-- name: streams_export
-- Without what a step that is not recorded has written live.
SELECT s."key" AS stream, s."offset" AS place, s.value, s.serialization, s.function_id
FROM @streams AS s WHERE s.workflow_uuid = :workflow_id AND (s.attempt IS NULL OR EXISTS (
    SELECT 1 FROM @operation_outputs AS o WHERE o.workflow_uuid = s.workflow_uuid AND o.function_id = s.function_id
))
ORDER BY s."key", s."offset";

-- name: messages_export
SELECT
    m.message_uuid, m.topic, m.message, m.created_at_epoch_ms, m.serialization, m.consumed, m.consumed_by_function_id,
    m.sequence
FROM @notifications AS m WHERE m.destination_uuid = :workflow_id ORDER BY m.sequence;

-- name: events_export
SELECT h."key", h.value, h.function_id, h.serialization FROM @workflow_events_history AS h
WHERE h.workflow_uuid = :workflow_id ORDER BY h.set_order, h.function_id, h."key";

-- name: children_export
SELECT workflow_uuid FROM @workflow_status WHERE parent_workflow_id = :workflow_id ORDER BY created_at, workflow_uuid;

-- name: run_import
-- rows: workflow_uuid text, status text, name text, class_name text, config_name text, inputs text, output text
-- rows: error text, serialization text, output_serialization text, authenticated_user text, assumed_role text
-- rows: authenticated_roles text, executor_id text, created_at bigint, updated_at bigint, started_at_epoch_ms bigint
-- rows: completed_at bigint, application_version text, application_id text, parent_workflow_id text
-- rows: forked_from text, was_forked_from bool, executions int, generation int, fingerprint text, attributes text
-- rows: queue_name text, priority int, queue_partition_key text, recovery_attempts bigint
-- rows: workflow_timeout_ms bigint, workflow_deadline_epoch_ms bigint, retries int
-- rows: is_debounced bool, debounce_deadline_epoch_ms bigint, creation_key text
-- none -> the status it ended with, or ENQUEUED. A row whose id is taken is left out. Nobody holds its token.
INSERT INTO @workflow_status (
    workflow_uuid, status, name, class_name, config_name, inputs, output, error, serialization, output_serialization,
    authenticated_user, assumed_role, authenticated_roles, executor_id, created_at, updated_at, started_at_epoch_ms,
    completed_at, application_version, application_id, parent_workflow_id, forked_from, was_forked_from, executions,
    generation, fingerprint, attributes, queue_name, priority, queue_partition_key, recovery_attempts,
    workflow_timeout_ms, workflow_deadline_epoch_ms, retries, is_debounced, debounce_deadline_epoch_ms, creation_key
)
SELECT
    r.workflow_uuid, r.status, r.name, r.class_name, r.config_name, r.inputs, r.output, r.error, r.serialization,
    r.output_serialization, r.authenticated_user, r.assumed_role, r.authenticated_roles, r.executor_id, r.created_at,
    COALESCE(r.updated_at, {now_ms}), r.started_at_epoch_ms, r.completed_at, r.application_version, r.application_id,
    r.parent_workflow_id, r.forked_from, r.was_forked_from, r.executions, r.generation, r.fingerprint, r.attributes,
    r.queue_name, r.priority, r.queue_partition_key, r.recovery_attempts, r.workflow_timeout_ms,
    r.workflow_deadline_epoch_ms, r.retries, r.is_debounced, r.debounce_deadline_epoch_ms, r.creation_key
FROM {rows} AS r
WHERE true
{unless_run_is_there};

-- fragment: unless_run_is_there
ON CONFLICT (workflow_uuid) DO NOTHING

-- name: run_imported
-- Whose the id is now.
SELECT status, creation_key FROM @workflow_status WHERE workflow_uuid = :workflow_id;

-- name: streams_import
-- rows: workflow_uuid text, stream text, place int, value text, serialization text, function_id int
-- In the transaction that wrote the run.
INSERT INTO @streams (workflow_uuid, "key", "offset", value, serialization, function_id)
SELECT r.workflow_uuid, r.stream, r.place, r.value, r.serialization, r.function_id FROM {rows} AS r;

-- name: counter_import
INSERT INTO @message_counters (workflow_uuid, last_sequence) VALUES (:workflow_id, :last_sequence);

-- name: messages_import
-- rows: message_uuid text, destination text, topic text, message text, created_at bigint, serialization text
-- rows: consumed bool, position int, sequence bigint
INSERT INTO @notifications (
    message_uuid, destination_uuid, topic, message, created_at_epoch_ms, serialization, consumed,
    consumed_by_function_id, sequence
)
SELECT
    r.message_uuid, r.destination, r.topic, r.message, r.created_at, r.serialization, r.consumed, r.position, r.sequence
FROM {rows} AS r;

-- name: events_import
-- rows: id text, event text, value text, serialization text, position int, place int
INSERT INTO @workflow_events_history (workflow_uuid, "key", value, serialization, function_id, set_order)
SELECT r.id, r.event, r.value, r.serialization, r.position, r.place FROM {rows} AS r;

-- name: steps_import
-- rows: workflow_uuid text, function_id int, function_name text, identity text, fingerprint text, output text
-- rows: error text, child_workflow_id text, serialization text, started_at_epoch_ms bigint
-- rows: completed_at_epoch_ms bigint
-- In the transaction that wrote the run. A row that is there was written with the run by a commit that was in doubt.
INSERT INTO @operation_outputs (
    workflow_uuid, function_id, function_name, identity, fingerprint, output, error, child_workflow_id, serialization,
    started_at_epoch_ms, completed_at_epoch_ms
)
SELECT
    r.workflow_uuid, r.function_id, r.function_name, r.identity, r.fingerprint, r.output, r.error,
    r.child_workflow_id, r.serialization, r.started_at_epoch_ms, r.completed_at_epoch_ms
FROM {rows} AS r
WHERE true
{unless_step_is_there};

-- fragment: unless_step_is_there
ON CONFLICT DO NOTHING
