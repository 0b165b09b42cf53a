-- name: doctor_settings
SELECT s.name, s.setting AS value FROM pg_catalog.pg_settings AS s
WHERE s.name IN (
    'server_version', 'server_version_num', 'fsync', 'full_page_writes', 'synchronous_commit', 'max_connections',
    'superuser_reserved_connections', 'default_transaction_isolation', 'default_transaction_read_only',
    'idle_in_transaction_session_timeout'
)
UNION ALL
SELECT 'in_recovery', CASE WHEN pg_catalog.pg_is_in_recovery() THEN 'on' ELSE 'off' END;
