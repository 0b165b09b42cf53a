-- name: doctor_settings
SELECT s.name, s.setting AS value FROM pg_catalog.pg_settings AS s
WHERE s.name IN (
    'server_version', 'server_version_num', 'fsync', 'full_page_writes', 'synchronous_commit', 'max_connections',
    'superuser_reserved_connections', 'default_transaction_isolation', 'default_transaction_read_only',
    'idle_in_transaction_session_timeout'
)
UNION ALL
SELECT 'in_recovery', CASE WHEN pg_catalog.pg_is_in_recovery() THEN 'on' ELSE 'off' END
UNION ALL
SELECT 'connection_limit', CAST(min(l.most) AS text)
FROM (
    SELECT r.rolconnlimit AS most FROM pg_catalog.pg_roles AS r WHERE r.rolname = session_user
    UNION ALL
    SELECT d.datconnlimit FROM pg_catalog.pg_database AS d WHERE d.datname = pg_catalog.current_database()
) AS l
WHERE l.most >= 0
HAVING count(*) > 0;

-- name: doctor_rights
-- only: postgres
-- The tables that this user may not read and write; only migrations write to the first two.
SELECT c.relname AS name
FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = :schema AND c.relkind IN ('r', 'p') AND NOT (
    pg_catalog.has_table_privilege(c.oid, 'SELECT')
    AND (c.relname IN ('holdfast_migrations', 'holdfast_meta') OR (
        pg_catalog.has_table_privilege(c.oid, 'INSERT') AND pg_catalog.has_table_privilege(c.oid, 'UPDATE')
        AND pg_catalog.has_table_privilege(c.oid, 'DELETE')
    ))
)
ORDER BY c.relname;
