-- SQL as a client: whoever can call a function can enqueue a run. Arguments are JSON, as portable JSON stores them.
CREATE FUNCTION @enqueue_workflow(
    workflow_name TEXT,
    queue_name TEXT,
    positional_args JSON[] DEFAULT ARRAY[]::JSON[],
    named_args JSON DEFAULT '{}'::JSON,
    class_name TEXT DEFAULT NULL,
    config_name TEXT DEFAULT NULL,
    workflow_id TEXT DEFAULT NULL,
    app_version TEXT DEFAULT NULL,
    timeout_ms BIGINT DEFAULT NULL,
    deadline_epoch_ms BIGINT DEFAULT NULL,
    deduplication_id TEXT DEFAULT NULL,
    priority INTEGER DEFAULT 0,
    queue_partition_key TEXT DEFAULT NULL
) RETURNS TEXT LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
#variable_conflict use_variable
DECLARE
    chosen TEXT := COALESCE(workflow_id, gen_random_uuid()::TEXT);
    call TEXT;
    there RECORD;
    now_ms BIGINT := floor(extract(epoch FROM statement_timestamp()) * 1000)::BIGINT;
BEGIN
    IF workflow_name IS NULL OR workflow_name = '' THEN
        RAISE EXCEPTION 'enqueue_workflow: workflow_name is missing' USING ERRCODE = 'invalid_parameter_value';
    ELSIF greatest(length(workflow_name), length(class_name), length(config_name)) > 255
        OR concat(workflow_name, class_name, config_name) ~ '["\\[:cntrl:]]'
    THEN
        RAISE EXCEPTION 'enqueue_workflow: no workflow, class or object can have such a name: use 1 to 255 printable '
            'characters without quotation marks and backslashes' USING ERRCODE = 'invalid_parameter_value';
    ELSIF queue_name IS NULL OR queue_name = '' THEN
        RAISE EXCEPTION 'enqueue_workflow: queue_name is missing' USING ERRCODE = 'invalid_parameter_value';
    ELSIF length(queue_name) > 255 OR app_version = '' OR length(app_version) > 255 THEN
        RAISE EXCEPTION 'enqueue_workflow: queue_name and app_version have 1 to 255 characters'
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF starts_with(queue_name, '_holdfast_') THEN
        RAISE EXCEPTION 'enqueue_workflow: queue names that begin with _holdfast_ are reserved, not %', queue_name
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF length(chosen) NOT BETWEEN 1 AND 255 THEN
        RAISE EXCEPTION 'enqueue_workflow: a workflow_id has 1 to 255 characters, this one has %', length(chosen)
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF named_args IS NOT NULL AND json_typeof(named_args) <> 'object' THEN
        RAISE EXCEPTION 'enqueue_workflow: named_args must be a JSON object, not %', json_typeof(named_args)
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF priority IS NULL OR priority < 0 THEN
        RAISE EXCEPTION 'enqueue_workflow: a priority is 0, which goes first, or more, not %', priority
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF timeout_ms NOT BETWEEN 1 AND 3153600000000 THEN
        RAISE EXCEPTION 'enqueue_workflow: timeout_ms must be more than 0, and a hundred years at most, not %', timeout_ms
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF deduplication_id = '' OR queue_partition_key = '' THEN
        RAISE EXCEPTION 'enqueue_workflow: deduplication_id and queue_partition_key are NULL or not empty'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    call := json_build_object(
        'positionalArgs', COALESCE(array_to_json(positional_args), '[]'::JSON),
        'namedArgs', COALESCE(named_args, '{}'::JSON)
    )::TEXT;

    LOOP  -- again if whoever had one of the ids has let it go between the insert and the look
        INSERT INTO @workflow_status (
            workflow_uuid, status, name, class_name, config_name, inputs, serialization, creation_key,
            workflow_timeout_ms, workflow_deadline_epoch_ms, application_version, queue_name, deduplication_id,
            priority, queue_partition_key, created_at, updated_at
        ) VALUES (
            chosen, 'ENQUEUED', workflow_name, class_name, config_name, call, 'portable_json', gen_random_uuid()::TEXT,
            timeout_ms, deadline_epoch_ms, app_version, queue_name, deduplication_id,
            priority, queue_partition_key, now_ms, now_ms
        ) ON CONFLICT DO NOTHING;
        IF FOUND THEN
            -- A hint: without it the run is found by the next poll.
            PERFORM pg_notify(
                (SELECT n.nspname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
                 WHERE c.oid = '@workflow_status'::regclass), ''
            );
            RETURN chosen;
        END IF;

        SELECT w.name, w.class_name, w.config_name, w.queue_name, w.inputs, w.fingerprint, w.status, w.change_key
        INTO there FROM @workflow_status AS w WHERE w.workflow_uuid = chosen;
        IF FOUND THEN
            -- What another program has enqueued carries a fingerprint, which cannot be made here, and the class of a
            -- static method, which need not be said here. A run that was cancelled or sent back has left its queue.
            IF there.name <> workflow_name OR there.class_name <> class_name
                OR there.config_name IS DISTINCT FROM config_name
                OR (there.change_key IS NULL AND there.queue_name IS DISTINCT FROM queue_name)
                OR (there.fingerprint IS NULL AND there.inputs <> call)
            THEN
                RAISE EXCEPTION 'enqueue_workflow: the id % belongs to another call, of % in the queue % (%)',
                    chosen, there.name, COALESCE(there.queue_name, 'none'), there.status
                    USING ERRCODE = 'unique_violation', HINT = 'Choose another workflow_id.';
            END IF;
            RETURN chosen;
        END IF;
        SELECT w.workflow_uuid, w.status INTO there FROM @workflow_status AS w
        WHERE w.queue_name = enqueue_workflow.queue_name AND w.deduplication_id = enqueue_workflow.deduplication_id;
        IF FOUND THEN
            RAISE EXCEPTION
                'enqueue_workflow: the queue % has a run with the deduplication id % that has not ended: % (%)',
                queue_name, deduplication_id, there.workflow_uuid, there.status
                USING ERRCODE = 'unique_violation', HINT = 'Wait for it, or choose another deduplication_id.';
        END IF;
    END LOOP;
END
$body$;

-- A message to a run, as send() stores it: with the next number of its destination, whose counter is held until commit.
CREATE FUNCTION @send_message(
    destination_id TEXT,
    message JSON,
    topic TEXT DEFAULT '__null__topic__',
    message_id TEXT DEFAULT NULL
) RETURNS VOID LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
#variable_conflict use_variable
DECLARE
    chosen TEXT := COALESCE(message_id, gen_random_uuid()::TEXT);
    number BIGINT;
BEGIN
    IF destination_id IS NULL OR destination_id = '' THEN
        RAISE EXCEPTION 'send_message: destination_id is missing' USING ERRCODE = 'invalid_parameter_value';
    ELSIF message IS NULL THEN
        RAISE EXCEPTION 'send_message: message is missing; to send nothing, send the JSON null'
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF length(chosen) NOT BETWEEN 1 AND 255 OR length(topic) NOT BETWEEN 1 AND 255 THEN
        RAISE EXCEPTION 'send_message: topic and message_id have 1 to 255 characters'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO @message_counters AS c (workflow_uuid, last_sequence)
    SELECT w.workflow_uuid, 1 FROM @workflow_status AS w WHERE w.workflow_uuid = destination_id
    ON CONFLICT (workflow_uuid) DO UPDATE SET last_sequence = c.last_sequence + 1
    RETURNING last_sequence INTO number;
    IF number IS NULL THEN
        RAISE EXCEPTION 'send_message: there is no run %', destination_id USING ERRCODE = 'foreign_key_violation';
    END IF;
    -- One that was sent before is left out.
    INSERT INTO @notifications (
        message_uuid, destination_uuid, topic, message, created_at_epoch_ms, serialization, consumed, sequence
    ) VALUES (
        chosen, destination_id, COALESCE(topic, '__null__topic__'), message::TEXT,
        floor(extract(epoch FROM statement_timestamp()) * 1000)::BIGINT, 'portable_json', FALSE, number
    ) ON CONFLICT (message_uuid) DO NOTHING;
    -- Who was put away for it is woken; one that is being put away at this moment looks for it itself.
    UPDATE @workflow_status AS w
    SET status = 'ENQUEUED', delay_until_epoch_ms = NULL,
        updated_at = floor(extract(epoch FROM statement_timestamp()) * 1000)::BIGINT
    FROM @workflow_waits AS s
    WHERE s.workflow_uuid = destination_id AND s.wait_kind = 'message' AND s.awaited_uuid = destination_id
        AND s.awaited_key = COALESCE(topic, '__null__topic__') AND w.workflow_uuid = destination_id
        AND w.status || '' = 'DELAYED' AND w.wait_kind IS NOT NULL;
    PERFORM pg_notify(
        (SELECT n.nspname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
         WHERE c.oid = '@workflow_status'::regclass), ''
    );
END
$body$;
