-- What PostgreSQL alone can do.

-- name: database_here
SELECT
    current_database() AS name,
    (SELECT m."value" FROM @holdfast_meta AS m WHERE m."key" = 'database_id') AS mark;

-- name: outbox_tell
-- Sent by the server when the transaction commits, and only then.
SELECT pg_notify(r.channel, '') AS told FROM {rows} AS r;
