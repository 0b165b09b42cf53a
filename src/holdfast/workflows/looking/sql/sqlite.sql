-- fragment: planned

-- fragment: probed

-- fragment: in_list
IN (SELECT value FROM json_each(

-- fragment: list_end
))

-- fragment: position
instr

-- fragment: by_owner
INDEXED BY idx_workflow_status_owner

-- fragment: status_text
-- As in the index of what waits in queues.
w.status || ''

-- fragment: forked_text
-- As in the index of forks.
w.forked_from || ''

-- fragment: priority_text
CAST(w.priority AS text)

-- fragment: attributes
-- No index knows attributes here.
w.attributes IS NOT NULL AND :attributes IS NOT NULL

-- fragment: listed_attribute
AND w.workflow_uuid IN (
    SELECT a.workflow_uuid FROM @workflow_attributes AS a WHERE a.name = :attribute AND a.value = :attribute_value
)

-- fragment: attributes_any
-- No attribute that is asked for is missing. A number is not equal to true or false, which are 1 and 0 here. A text ends
-- at a NUL here, so a run with the escape of one is not found by its attributes, as on PostgreSQL.
(instr(w.attributes, '\u0000') = 0 AND NOT EXISTS (
    SELECT 1 FROM json_each(:attributes_any) AS q WHERE NOT EXISTS (
        SELECT 1 FROM json_each(w.attributes) AS a
        WHERE a.key = q.key AND a.value IS q.value
          AND (a.type = q.type OR (a.type IN ('integer', 'real') AND q.type IN ('integer', 'real')))
    )
))

-- name: attribute_probe
-- How many runs have an attribute, up to :most.
-- only: sqlite
SELECT count(*) AS found FROM (
    SELECT 1 AS one FROM @workflow_attributes AS a WHERE a.name = :attribute AND a.value = :attribute_value LIMIT :most
) AS some_runs;
