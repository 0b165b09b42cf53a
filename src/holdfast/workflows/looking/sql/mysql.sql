-- fragment: planned

-- fragment: probed

-- fragment: in_list
IN (SELECT l.v FROM JSON_TABLE(

-- fragment: list_end
-- In the collation of the keys, which MariaDB and MySQL call differently; in any other it could not be compared.
, '$[*]' COLUMNS (
    v VARCHAR(512) CHARACTER SET utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */ PATH '$'
)) AS l)

-- fragment: position
instr

-- fragment: by_owner

-- fragment: status_text
w.status

-- fragment: forked_text
w.forked_from

-- fragment: priority_text
CAST(w.priority AS CHAR)

-- fragment: attributes
-- No index knows attributes here.
w.attributes IS NOT NULL AND :attributes IS NOT NULL

-- fragment: listed_attribute
-- No index knows attributes here.
AND :attribute IS NOT NULL AND :attribute_value IS NOT NULL

-- fragment: attributes_any
-- JSON_CONTAINS also finds a value among those of a list, which is another value, and takes whole numbers for floats:
-- above 2^53 it finds others than the one that is asked for. A run with the escape of NUL is not found by its
-- attributes, as on PostgreSQL; CHAR(92) is the backslash, whatever the server makes of one in a text.
(LOCATE(CONCAT(CHAR(92), 'u0000'), w.attributes) = 0 AND JSON_CONTAINS(w.attributes, :attributes_any) AND NOT EXISTS (
    SELECT 1 FROM JSON_TABLE(JSON_KEYS(:attributes_any), '$[*]' COLUMNS (
        k VARCHAR(512) CHARACTER SET utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */ PATH '$'
    )) AS q
    WHERE JSON_TYPE({attribute_there}) IN ('ARRAY', 'OBJECT')
       OR (JSON_TYPE({attribute_there}) = 'INTEGER' AND JSON_TYPE({attribute_asked}) = 'INTEGER'
           AND CAST({attribute_there} AS CHAR) <> CAST({attribute_asked} AS CHAR))
))

-- fragment: attribute_there
JSON_EXTRACT(w.attributes, CONCAT('$.', JSON_QUOTE(q.k)))

-- fragment: attribute_asked
JSON_EXTRACT(:attributes_any, CONCAT('$.', JSON_QUOTE(q.k)))

-- fragment: unless_run_is_there
ON DUPLICATE KEY UPDATE workflow_uuid = @workflow_status.workflow_uuid

-- fragment: unless_step_is_there
ON DUPLICATE KEY UPDATE workflow_uuid = @operation_outputs.workflow_uuid
