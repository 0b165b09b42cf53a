-- Locks. PostgreSQL and SQLite share this text. A row is never deleted: the token of a key only grows.

-- name: locks_acquire
-- rows: lock_key text, owner text, claim_key text, ttl_ms bigint
-- A lock that nobody holds, or whose lease is over, gets a new holder and the next token. The answer has those that were
-- acquired. No key may be there twice: callers hand rows over in the order of their keys, so that two batches that want
-- the same locks do not wait for each other.
INSERT INTO @holdfast_locks AS l (lock_key, owner, token, claim_key, acquired_at_ms, expires_at_ms)
SELECT r.lock_key, r.owner, 1, r.claim_key, {now_ms}, {now_ms} + r.ttl_ms FROM {rows} AS r
WHERE true
ORDER BY r.n
ON CONFLICT (lock_key) DO UPDATE
SET owner = excluded.owner, token = l.token + 1, claim_key = excluded.claim_key,
    acquired_at_ms = excluded.acquired_at_ms, expires_at_ms = excluded.expires_at_ms
WHERE l.owner IS NULL OR l.expires_at_ms <= {now_ms}
RETURNING lock_key, owner, token, claim_key, expires_at_ms;

-- name: locks_look
-- rows: lock_key text
SELECT l.lock_key, l.owner, l.token, l.claim_key, l.expires_at_ms, {now_ms} AS now_ms
FROM {rows} AS r JOIN @holdfast_locks AS l ON l.lock_key = r.lock_key;

-- name: locks_release
-- rows: lock_key text, held bigint, holder text, key text
-- By its holder, also after the lease is over, if nobody has acquired it since.
UPDATE @holdfast_locks AS l SET owner = NULL, claim_key = r.key
FROM {rows} AS r
WHERE l.lock_key = r.lock_key AND l.token = r.held AND l.owner = r.holder;

-- name: locks_extend
-- rows: lock_key text, held bigint, holder text, ttl_ms bigint
-- A lease that is over is over.
UPDATE @holdfast_locks AS l SET expires_at_ms = {now_ms} + r.ttl_ms
FROM {rows} AS r
WHERE l.lock_key = r.lock_key AND l.token = r.held AND l.owner = r.holder AND l.expires_at_ms > {now_ms};
