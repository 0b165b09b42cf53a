-- Streams of runs, the attempts of steps that write to them before their record, and the state of event dispatchers.
CREATE TABLE @streams (
    workflow_uuid TEXT COLLATE "C" NOT NULL,
    "key" TEXT COLLATE "C" NOT NULL,
    value TEXT NOT NULL,
    "offset" INTEGER NOT NULL,
    function_id INTEGER NOT NULL,
    serialization TEXT,
    attempt INTEGER,
    entry_no INTEGER,
    PRIMARY KEY (workflow_uuid, "key", "offset")
);

-- A live attempt: what it has written is thrown away unless its operation is recorded with it.
CREATE TABLE @stream_attempts (
    workflow_uuid TEXT COLLATE "C" NOT NULL,
    identity TEXT COLLATE "C" NOT NULL,
    "key" TEXT COLLATE "C" NOT NULL,
    owner_xid TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    function_id INTEGER NOT NULL,
    first_offset INTEGER NOT NULL,
    PRIMARY KEY (workflow_uuid, identity, "key")
);

-- In the place of a foreign key, which would look the run up once more for every entry; as for recorded operations.
CREATE FUNCTION @delete_run_streams() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
    EXECUTE format(
        'DELETE FROM %I.streams AS s USING gone WHERE s.workflow_uuid = gone.workflow_uuid', TG_TABLE_SCHEMA
    );
    EXECUTE format(
        'DELETE FROM %I.stream_attempts AS a USING gone WHERE a.workflow_uuid = gone.workflow_uuid', TG_TABLE_SCHEMA
    );
    RETURN NULL;
END
$body$;

CREATE TRIGGER delete_run_streams AFTER DELETE ON @workflow_status
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION @delete_run_streams();

CREATE TABLE @event_dispatch_kv (
    service_name TEXT COLLATE "C" NOT NULL,
    workflow_fn_name TEXT COLLATE "C" NOT NULL,
    "key" TEXT COLLATE "C" NOT NULL,
    value TEXT,
    update_seq NUMERIC(38, 0),
    update_time NUMERIC(38, 15),
    PRIMARY KEY (service_name, workflow_fn_name, "key")
);
