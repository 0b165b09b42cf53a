-- fragment: sequence_column
sequence INTEGER PRIMARY KEY AUTOINCREMENT

-- fragment: data
data_json

-- name: flow_present
SELECT 1 AS present FROM sqlite_master WHERE type = 'table' AND name = {table_name};
