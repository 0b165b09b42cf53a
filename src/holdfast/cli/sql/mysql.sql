-- name: doctor_settings
SHOW GLOBAL VARIABLES WHERE variable_name IN (
    'version', 'innodb_flush_log_at_trx_commit', 'log_bin', 'sync_binlog', 'max_allowed_packet', 'sql_mode',
    'read_only', 'max_connections'
);
