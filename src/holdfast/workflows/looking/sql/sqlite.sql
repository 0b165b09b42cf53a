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

-- fragment: priority_text
CAST(w.priority AS text)

-- fragment: attributes
-- No index knows attributes here.
w.attributes IS NOT NULL AND :attributes IS NOT NULL

-- fragment: attributes_any
-- No attribute that is asked for is missing. A number is not equal to true or false, which are 1 and 0 here.
NOT EXISTS (
    SELECT 1 FROM json_each(:attributes_any) AS q WHERE NOT EXISTS (
        SELECT 1 FROM json_each(w.attributes) AS a
        WHERE a.key = q.key AND a.value IS q.value
          AND (a.type = q.type OR (a.type IN ('integer', 'real') AND q.type IN ('integer', 'real')))
    )
)
