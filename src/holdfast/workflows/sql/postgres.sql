-- What PostgreSQL alone can do.

-- name: outbox_tell
-- rows: channel text
-- Sent by the server when the transaction commits, and only then.
SELECT pg_notify(r.channel, '') AS told FROM {rows} AS r;
