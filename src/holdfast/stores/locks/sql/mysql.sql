-- MariaDB/MySQL assigns from left to right: what the condition reads is written last. It returns nothing: who has acquired
-- what is looked up by the key of the claim.

-- fragment: is_free
(@holdfast_locks.owner IS NULL OR @holdfast_locks.expires_at_ms <= {now_ms})

-- name: locks_acquire
INSERT INTO @holdfast_locks (lock_key, owner, token, claim_key, acquired_at_ms, expires_at_ms)
SELECT r.lock_key, r.owner, 1, r.claim_key, {now_ms}, {now_ms} + r.ttl_ms FROM {rows} AS r
ORDER BY r.n
ON DUPLICATE KEY UPDATE
    token = CASE WHEN {is_free} THEN @holdfast_locks.token + 1 ELSE @holdfast_locks.token END,
    claim_key = CASE WHEN {is_free} THEN VALUES(claim_key) ELSE @holdfast_locks.claim_key END,
    acquired_at_ms = CASE WHEN {is_free} THEN VALUES(acquired_at_ms) ELSE @holdfast_locks.acquired_at_ms END,
    owner = CASE WHEN {is_free} THEN VALUES(owner) ELSE @holdfast_locks.owner END,
    expires_at_ms = CASE WHEN @holdfast_locks.claim_key = VALUES(claim_key) THEN VALUES(expires_at_ms)
                         ELSE @holdfast_locks.expires_at_ms END;

-- name: locks_release
UPDATE {rows} AS r STRAIGHT_JOIN @holdfast_locks AS l FORCE INDEX (PRIMARY)
    ON l.lock_key = r.lock_key AND l.token = r.held AND l.owner = r.holder
SET l.owner = NULL, l.claim_key = r.key;

-- name: locks_extend
UPDATE {rows} AS r STRAIGHT_JOIN @holdfast_locks AS l FORCE INDEX (PRIMARY)
    ON l.lock_key = r.lock_key AND l.token = r.held AND l.owner = r.holder
SET l.expires_at_ms = {now_ms} + r.ttl_ms
WHERE l.expires_at_ms > {now_ms};
